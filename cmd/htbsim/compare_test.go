package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/compare"
)

// The step input, exact, every row under its right name.
func TestCompareStepInput(t *testing.T) {
	folder(t, nil)
	table := works(t, "compare")
	golden(t, "good/compare.golden", table)
	for line := range strings.SplitSeq(table, "\n") {
		require.Equal(t, strings.TrimRight(line, " "), line, "no blanks at the end of a line")
	}
	require.Empty(t, contents(t))
}

type decodedComparison struct {
	Load, Unit, Rate string
	Burst, Wants     int64
	Seconds, Step    float64
	Algorithms       map[string]struct {
		Name, Set          string
		Accepted, Rejected int64
		Worst              struct {
			Units          int64
			Seconds, Above float64
			Kept           bool
		}
		Delay  float64 `json:"delay_ms"`
		State  int     `json:"state_bytes"`
		Series []int64
	}
	Series struct {
		Wants    []int64
		Promised []float64
	}
}

// decodeComparisons reads the JSON and checks what holds for all comparisons.
func decodeComparisons(t *testing.T, text string) []decodedComparison {
	t.Helper()
	var all []decodedComparison
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&all))
	for _, c := range all {
		steps := len(c.Series.Wants)
		require.Len(t, c.Series.Promised, steps)
		require.Equal(t, c.Wants, c.Series.Wants[steps-1])
		for name, a := range c.Algorithms {
			require.Equal(t, c.Wants, a.Accepted+a.Rejected, name)
			require.Len(t, a.Series, steps, name)
			require.Equal(t, a.Accepted, a.Series[steps-1], name)
			require.Positive(t, a.State)
			switch {
			case name == "fixed-window", name == "sliding-counter": // which may pass it
				continue
			case name == "leaky-queue" && c.Burst < 3: // a larger request leaves at once
				continue
			}
			require.True(t, a.Worst.Kept, name)
			require.LessOrEqual(t, a.Worst.Above, float64(c.Burst), name)
			for i := range steps {
				require.LessOrEqual(t, float64(a.Series[i]), c.Series.Promised[i]+1e-3, "%s, step %d", name, i)
			}
		}
		buckets, ok := c.Algorithms["token-bucket"]
		for _, same := range []string{"gcra", "leaky-meter"} {
			if other, both := c.Algorithms[same]; ok && both {
				other.Name = buckets.Name
				require.Equal(t, buckets, other, same)
			}
		}
	}
	return all
}

func TestCompareJSON(t *testing.T) {
	folder(t, map[string]string{"load.yaml": goodLoad, "trace.csv": goodTrace, "access.log": goodLog})
	all := decodeComparisons(t, works(t, "compare", "--json", "-"))
	require.Len(t, all, 3)
	require.Len(t, all[0].Algorithms, len(compare.Flags()))
	require.Equal(t, int64(399), all[1].Algorithms["token-bucket"].Accepted)
	require.Equal(t, int64(409), all[2].Algorithms["token-bucket"].Accepted, "209 of the 600 after the 200")

	all = decodeComparisons(t, works(t, "compare", "--load", "load.yaml", "--rate", "30/s", "--burst", "10", "--algorithms", "gcra,fixed-window,token-bucket", "--json", "-"))
	require.Len(t, all, 1)
	require.Len(t, all[0].Algorithms, 3)
	require.Equal(t, 3.0, all[0].Seconds)

	all = decodeComparisons(t, works(t, "compare", "--trace", "access.log", "--cost", "bytes", "--rate", "1kB/s", "--algorithms", "gcra", "--json", "-"))
	require.Equal(t, []any{"bytes", int64(611), int64(1000)}, []any{all[0].Unit, all[0].Wants, all[0].Burst})
	all = decodeComparisons(t, htbsim(t.Context(), "compare", "--trace", "trace.csv", "--rate", "2/s", "--json", "-").stdout)
	require.Equal(t, []any{"units", int64(6)}, []any{all[0].Unit, all[0].Wants})
	require.Equal(t, int64(3), all[0].Algorithms["gcra"].Accepted, "3 can never pass a burst of 2")
}

func TestCompareCSV(t *testing.T) {
	folder(t, nil)
	records, err := csv.NewReader(strings.NewReader(works(t, "compare", "--step", "1s", "--csv", "-"))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "load time algorithm wants accepted promised", strings.Join(records[0], " "))
	require.Len(t, records, 1+9*(7+6+13), "until the queue is empty")
	require.Equal(t, "1 6 token-bucket 200 200 200", strings.Join(records[1+9*5], " "))
	require.Equal(t, "1 6 leaky-queue 200 100 200", strings.Join(records[1+9*5+4], " "))
}

// A seed gives the same bytes in every format; with --quiet only notes are said.
func TestCompareOutputs(t *testing.T) {
	folder(t, map[string]string{"load.yaml": goodLoad, "trace.csv": goodTrace})
	args := func(seed string) []string {
		return []string{"compare", "--load", "load.yaml", "--rate", "30/s", "--seed", seed, "--quiet"}
	}
	for _, flag := range []string{"--json", "--csv", "--plot"} {
		made := map[string]string{}
		for _, seed := range []string{"1", "2"} {
			for range 2 {
				require.Empty(t, works(t, append(args(seed), flag, "out.svg")...))
				if made[seed] != "" {
					require.Equal(t, made[seed], read(t, "out.svg"), flag)
				}
				made[seed] = read(t, "out.svg")
			}
		}
		require.NotEqual(t, made["1"], made["2"], flag)
	}
	o := htbsim(t.Context(), "compare", "--trace", "trace.csv", "--rate", "2/s", "--quiet")
	require.Equal(t, exitOK, o.code)
	require.Empty(t, o.stdout)
	require.Contains(t, o.stderr, "note: requests that cost up to 3 are more than can ever pass")
}

// A trace of one instant, and one with a line out of its place.
func TestCompareOddTraces(t *testing.T) {
	folder(t, map[string]string{"instant.csv": "time,class,cost\n5,a,1\n5,b,1\n", "late.csv": "time,class,cost\n0,a,1\n500,a,1\n900,a,1\n1,a,1\n"})
	for _, ext := range []string{"svg", "html"} {
		o := htbsim(t.Context(), "compare", "--trace", "instant.csv", "--rate", "2/s", "--algorithms", "gcra", "--json", "out.json", "--plot", "out."+ext)
		require.Equal(t, exitOK, o.code, o.stderr)
	}
	all := decodeComparisons(t, read(t, "out.json"))
	require.Equal(t, int64(2), all[0].Wants)
	for _, args := range [][]string{{"compare", "--rate", "2/s"}, {"plan"}} {
		require.Contains(t, works(t, append(args, "--trace", "late.csv")...), "note: 1 lines came later than --reorder allows")
		o := htbsim(t.Context(), append(args, "--trace", "late.csv", "--quiet")...)
		require.Equal(t, exitOK, o.code)
		require.Contains(t, o.stderr, "note: 1 lines came later")
	}
}

func TestCompareInterrupted(t *testing.T) {
	folder(t, map[string]string{"trace.csv": "time,class,cost\n" + strings.Repeat("1,a,1\n", 10_000), "old.svg": "old\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := htbsim(ctx, "compare", "--trace", "trace.csv", "--rate", "2/s", "--plot", "old.svg")
	require.Equal(t, exitInput, o.code, o.stderr)
	require.Contains(t, o.stderr, "interrupted")
	require.Equal(t, "old\n", read(t, "old.svg"))
}

// More traffic makes no more memory, but for the series: the log's is bounded by its limit.
func TestCompareState(t *testing.T) {
	folder(t, map[string]string{"load.yaml": "duration: 100s\nflows: [{class: a, arrivals: constant, rate: 1000/s}]\n"})
	all := decodeComparisons(t, works(t, "compare", "--load", "load.yaml", "--rate", "10/s", "--burst", "50", "--json", "-"))
	require.Equal(t, 8+50*16, all[0].Algorithms["sliding-log"].State)
	require.Equal(t, int64(50+10*100-1), all[0].Algorithms["gcra"].Accepted, "burst + rate*time, less the step before the end")
}

// What is not asked for demands nothing, and blanks between names are no mistake.
func TestCompareSome(t *testing.T) {
	folder(t, map[string]string{"trace.csv": goodTrace, "huge.csv": "time,class,cost\n" + strings.Repeat("1,a,9000000000000000000\n", 3)})
	args := []string{"compare", "--trace", "trace.csv", "--json", "-", "--burst", "10"}
	all := decodeComparisons(t, works(t, append(args, "--rate", "1000000000000/s", "--algorithms", "gcra, sliding-log")...))
	require.Len(t, all[0].Algorithms, 2)
	o := htbsim(t.Context(), append(args, "--rate", "1000000000000/s")...)
	require.Contains(t, o.stderr, "--peak is missing")
	require.Contains(t, o.stderr, "leave dual-leaky out of --algorithms")
	o = htbsim(t.Context(), "compare", "--trace", "trace.csv", "--rate", "1/d", "--burst", "1000000")
	require.Equal(t, exitUsage, o.code)
	require.NotContains(t, o.stderr, "algo:")
	require.Contains(t, o.stderr, "--algorithms picks those that can")
	o = htbsim(t.Context(), "compare", "--trace", "huge.csv", "--rate", "1/s", "--algorithms", "gcra")
	require.Equal(t, exitInput, o.code)
	require.Contains(t, o.stderr, "huge.csv: all that arrives is more than 2^63-1 units")
}

func TestFineStep(t *testing.T) {
	require.Equal(t, time.Microsecond, fineStep(0))
	require.Equal(t, 5*time.Millisecond, fineStep(2*time.Second))
}
