package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/trace"
)

// halves writes the requests of the first half of a recorded trace, by time, as a CSV
// into the working folder, and returns those of the second, at their own times.
func halves(t *testing.T, file string, o trace.Options) (second []trace.Request) {
	path, err := filepath.Abs("../../../shared/data/" + file)
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no recorded traffic here: %v", err)
	}
	o.Reorder = 2 * time.Minute
	s, err := trace.Scan(t.Context(), path, o)
	require.NoError(t, err)
	in, err := trace.Open(path, s, o)
	require.NoError(t, err)
	defer in.Close()
	var first strings.Builder
	first.WriteString("time,class,cost\n")
	for {
		r, ok, err := in.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		if r.At < s.Span/2 {
			fmt.Fprintf(&first, "%.9f,%s,%d\n", r.At.Seconds(), htb.Path(r.Class...), r.Cost)
		} else {
			second = append(second, r)
		}
	}
	folder(t, map[string]string{"first.csv": first.String()})
	return second
}

// refusedBy replays requests through the tree of a file: the share of each class's requests
// that it refuses, those of a template together.
func refusedBy(t *testing.T, path string, requests []trace.Request) map[string]float64 {
	f, err := config.ParseFile(path)
	require.NoError(t, err)
	tree, err := htb.New(f.Root)
	require.NoError(t, err)
	named := map[string]bool{}
	for _, c := range f.Root.Children {
		named[c.Name] = c.Name != htb.Template
	}
	asked, refused := map[string]float64{}, map[string]float64{}
	for _, r := range requests {
		row := "*"
		if named[r.Class[0]] {
			row = r.Class[0]
		}
		asked[row]++
		if d, err := tree.Allow(htb.Time(r.At), r.Cost, r.Class...); err != nil || !d.Allowed {
			refused[row]++
		}
	}
	for row := range asked {
		refused[row] /= asked[row]
	}
	return refused
}

// A plan for the first half of each recorded trace, replayed on the second: what was
// refused, as a multiple of what was asked. With the growth that is the default it is
// within a factor of two for 1 % and 5 %; 0.1 % of so few requests is a guess, and a plan
// that just fits the first half refuses far more of the second, in which the services
// got 1.3 and 1.8 times as many tokens to do.
func TestPlanHoldsOnTheSecondHalf(t *testing.T) {
	for _, c := range []struct {
		file  string
		by    trace.By
		flags string
		holds []float64 // for these shares
	}{
		{"llm_tokens.csv", trace.ByClient, "", []float64{1, 5}},
		{"access.log", trace.ByClient, "", []float64{0.1, 1, 5}},
		{"access.log", trace.ByPrefix, "--few 300", nil},
		{"llm_tokens.csv", trace.ByClient, "--growth 1", nil},
		{"access.log", trace.ByClient, "--growth 1", []float64{5}},
		{"access.log", trace.ByPrefix, "--few 300 --growth 1", nil},
	} {
		t.Run(fmt.Sprint(c.file, c.by, c.flags), func(t *testing.T) {
			second := halves(t, c.file, trace.Options{By: c.by})
			for _, share := range []float64{0.1, 1, 5} {
				args := strings.Fields(fmt.Sprintf("plan --trace first.csv --refuse %v%% --out tree.yaml --quiet %s", share, c.flags))
				require.Empty(t, works(t, args...))
				require.Contains(t, works(t, "check", "--tree", "tree.yaml"), "no mistakes")
				refused := refusedBy(t, "tree.yaml", second)
				for _, row := range slices.Sorted(maps.Keys(refused)) {
					times := 100 * refused[row] / share
					t.Logf("%s by %v %s: of %s %.2f %% refused, %v %% asked, %.2f times", c.file, c.by, c.flags, row, 100*refused[row], share, times)
					if slices.Contains(c.holds, share) {
						require.Greater(t, times, 0.5, row)
						require.Less(t, times, 2.0, row)
					}
				}
			}
		})
	}
}

// Within a factor of two of 0.1 % is out of reach for the service code: even the slowest
// limit that refuses nothing at all of the first half, with the growth that is the default,
// refuses over twice that of the second.
func TestTheFirstHalfDoesNotKnow(t *testing.T) {
	second := halves(t, "llm_tokens.csv", trace.Options{})
	works(t, strings.Fields("plan --trace first.csv --refuse 0.0001% --out tree.yaml --quiet")...)
	refused := refusedBy(t, "tree.yaml", second)
	t.Logf("a limit that refuses nothing of the first half refuses %.2f %% of code in the second, %.2f %% of conv", 100*refused["code"], 100*refused["conv"])
	require.Greater(t, refused["code"], 2*.1/100)
}

type decodedPlan struct {
	Unit     string
	Seconds  float64
	Requests int64
	Refuse   float64
	Growth   float64
	Classes  map[string]struct {
		Names                    int
		Requests, Units, Largest int64
		Limits                   []decodedFit
		Planned                  decodedFit
	}
}

type decodedFit struct {
	Asked, Refused float64
	Rate           string
	Burst          int64
}

func decodePlan(t *testing.T, text string) (p decodedPlan) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&p))
	return p
}

// A small trace by hand: a class that is steady, and many that are small.
func TestPlan(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,class,cost\n")
	for i := range 2000 { // 20/s of 3 units
		fmt.Fprintf(&b, "%.3f,steady,3\n", float64(i)*0.05)
		if i%10 == 0 {
			fmt.Fprintf(&b, "%.3f,free/client-%d,%d\n", float64(i)*0.05, i%7, 1+i%4)
		}
	}
	folder(t, map[string]string{"trace.csv": b.String()})
	golden(t, "good/plan.golden", works(t, "plan", "--trace", "trace.csv", "--out", "tree.yaml"))
	golden(t, "good/plan.yaml", read(t, "tree.yaml"))
	golden(t, "good/plan-check.golden", works(t, "check", "--tree", "tree.yaml"))
	require.Equal(t, read(t, "tree.yaml"), works(t, "plan", "--trace", "trace.csv", "--out", "-"))

	p := decodePlan(t, works(t, "plan", "--trace", "trace.csv", "--growth", "1", "--saved", "0s", "--json", "-"))
	steady := p.Classes["steady"]
	require.Equal(t, []int64{2000, 6000, 3}, []int64{steady.Requests, steady.Units, steady.Largest})
	require.Equal(t, decodedFit{0.01, steady.Limits[1].Refused, steady.Limits[1].Rate, 3}, steady.Limits[1])
	require.LessOrEqual(t, steady.Limits[1].Refused, 0.01)
	require.Contains(t, p.Classes, "free/*")
	require.Equal(t, 7, p.Classes["free/*"].Names)

	o := htbsim(t.Context(), "run", "--tree", "tree.yaml", "--trace", "trace.csv", "--json", "-")
	require.Equal(t, exitOK, o.code, o.stderr)
	d := decode(t, o.stdout)
	require.LessOrEqual(t, float64(d.Classes["steady"].Rejected), 0.01*6000)
	require.LessOrEqual(t, float64(d.Classes["free"].Rejected), 0.02*float64(d.Classes["free"].Wants))
}

// Names from outside stay names in the tree that is written.
func TestPlanOddNames(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,class,cost\n")
	names := []string{"a b", "yes", `q"uote`, "x: {y}", "#c", "a%2Fb", "-", "*", "1.5", "new%0Aline", "日本", "%FF", "global"}
	for i := range 40 {
		fmt.Fprintf(&b, "%d,%s,1\n", i, strings.ReplaceAll(names[i%len(names)], `"`, "%22"))
	}
	folder(t, map[string]string{"trace.csv": b.String()})
	works(t, "plan", "--trace", "trace.csv", "--few", "2", "--out", "tree.yaml", "--quiet")
	f, err := config.ParseFile("tree.yaml")
	require.NoError(t, err)
	var got []string
	for _, c := range f.Root.Children {
		got = append(got, c.Name)
	}
	require.ElementsMatch(t, []string{"a b", "yes", `q"uote`, "x: {y}", "#c", "a/b", "-", "*", "1.5", "new\nline", "日本"}, got, "those that no class may be called are in the template")
}

// Where no rate refuses as little as was asked, that is said, and no tree is written.
func TestPlanWithoutARate(t *testing.T) {
	folder(t, map[string]string{"trace.csv": "time,class,cost\n" + strings.Repeat("5,a,1\n", 20)})
	table := works(t, "plan", "--trace", "trace.csv", "--saved", "0s")
	require.Contains(t, table, "no rate")
	require.Contains(t, table, `note: no rate refuses as little as was asked: "a" is refused 90 %`)
	o := htbsim(t.Context(), "plan", "--trace", "trace.csv", "--saved", "0s", "--out", "tree.yaml")
	require.Equal(t, exitInput, o.code)
	require.Contains(t, o.stderr, `"a" is refused 90 %`)
	require.NoFileExists(t, "tree.yaml")
}
