package sim

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/report"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
)

func parse(t testing.TB, tree, load string) (*config.File, *config.LoadFile) {
	t.Helper()
	f, err := config.Parse("tree.yaml", []byte(tree))
	require.NoError(t, err)
	l, err := config.ParseLoad("load.yaml", []byte(load), f.Unit)
	require.NoError(t, err)
	return f, l
}

func simulate(t testing.TB, tree, load string, o Options) *result.Run {
	t.Helper()
	f, l := parse(t, tree, load)
	if o.Step == 0 {
		o.Step = time.Second
	}
	if o.Top == 0 {
		o.Top = 20
	}
	run, err := Load(context.Background(), f, l, o)
	require.NoError(t, err)
	checkRun(t, run)
	return run
}

func rowOf(t testing.TB, run *result.Run, path string) result.Row {
	t.Helper()
	for _, r := range run.Rows {
		if r.Path == path {
			return r
		}
	}
	require.Fail(t, "no row "+path)
	return result.Row{}
}

// checkRun checks what holds of the numbers of every run.
func checkRun(t testing.TB, run *result.Run) {
	t.Helper()
	require.Zero(t, run.Rows[0].Borrows)
	for i, r := range run.Rows {
		require.Equal(t, r.Wants, r.Gets+r.Rejected, r.Path)
		require.Equal(t, r.Own, r.Gets-r.Borrows, r.Path)
		require.Equal(t, r.Wants, total(r.Series.Wants), r.Path)
		require.Equal(t, r.Gets, total(r.Series.Gets), r.Path)
		fair := 0.0
		for _, x := range r.Series.Fair {
			fair += x
		}
		require.InDelta(t, r.Fair, fair, 1e-6*math.Max(1, fair), r.Path)
		if r.Leaf {
			continue
		}
		var sum result.Row
		for _, c := range run.Rows[i+1:] {
			if c.Depth <= r.Depth {
				break
			}
			if c.Depth == r.Depth+1 {
				sum.Wants += c.Wants
				sum.Gets += c.Gets
				sum.Rejected += c.Rejected
				sum.Borrows += c.Borrows
				sum.Fair += c.Fair
			}
		}
		require.Equal(t, r.Wants, sum.Wants, "below %s", r.Path)
		require.Equal(t, r.Gets, sum.Gets, "below %s", r.Path)
		require.Equal(t, r.Rejected, sum.Rejected, "below %s", r.Path)
		require.Equal(t, r.Lends+r.Borrows, sum.Borrows, "below %s", r.Path)
		require.InDelta(t, r.Fair, sum.Fair, 1e-6*math.Max(1, r.Fair), "below %s", r.Path)
	}
}

func total(series []int64) (sum int64) {
	for _, x := range series {
		sum += x
	}
	return sum
}

const twoTenants = `tree: t
global:
  rate: 1000/s
  children:
    a: {rate: 450/s, ceil: 1000/s, burst: 45}
    b: {rate: 450/s, ceil: 1000/s, burst: 45}
`

func TestBackloggedTakesAllThereIs(t *testing.T) {
	run := simulate(t, twoTenants, `
duration: 10s
flows:
  - {class: a, arrivals: backlogged}
  - {class: b, arrivals: backlogged, from: 5s}
`, Options{})
	a, b := rowOf(t, run, "a"), rowOf(t, run, "b")
	require.Equal(t, []int64{1000, 1000, 1000}, a.Series.Gets[2:5], "alone")
	require.GreaterOrEqual(t, b.Series.Gets[5], int64(45+449), "what it saved, and its rate")
	for s := 6; s < 10; s++ {
		require.Equal(t, int64(1000), a.Series.Gets[s]+b.Series.Gets[s])
		require.GreaterOrEqual(t, b.Series.Gets[s], int64(449))
	}
	global := rowOf(t, run, "global")
	require.InDelta(t, global.Fair, float64(global.Gets), 0.001*global.Fair+100./3, "a third of the headroom is left")
}

// Law (e) of the tree, against fair: saturated, it gives out at least 99.9 % of it, but
// for the tokens that are left at the end for who might come.
func TestSaturatedGivesOutWhatIsFair(t *testing.T) {
	for name, tree := range map[string]string{
		"flat": twoTenants,
		"deep": `tree: t
global:
  rate: 1000/s
  children:
    p: {rate: 600/s, ceil: 1000/s, children: {l: {rate: 100/s, ceil: 900/s, burst: 7}, m: {rate: 300/s, ceil: 300/s}}}
    q: {rate: 200/s, ceil: 500/s, prio: 1, children: {"*": {rate: 5/s, ceil: 100/s, burst: 2}}}
    r: {rate: 7/m, ceil: 40/s}
`,
		"capped": `tree: t
global:
  rate: 1000/s
  children:
    p: {rate: 100/s, ceil: 300/s, children: {l: {rate: 10/s, ceil: 200/s}}}
    q: {rate: 200/s, ceil: 250/s}
`,
	} {
		f, err := config.Parse(name, []byte(tree))
		require.NoError(t, err)
		var load strings.Builder
		load.WriteString("duration: 20s\nflows:\n")
		for _, leaf := range leaves(f, 0) {
			load.WriteString(fmt.Sprintf("  - {class: %q, arrivals: backlogged%s}\n", leaf, map[bool]string{true: ", clients: 30"}[strings.HasSuffix(leaf, "*")]))
		}
		run := simulate(t, tree, load.String(), Options{})
		root := rowOf(t, run, "global")
		spec := f.Root.Resolved()
		kept := float64(spec.Burst-spec.Reserve()) / 2 // left by who is ahead
		require.InDelta(t, root.Fair, float64(root.Gets), 0.001*root.Fair+kept, name)
		require.LessOrEqual(t, float64(root.Gets), root.Fair*1.0005+1, name)
	}
}

func leaves(f *config.File, _ int) (out []string) {
	root := f.Root.Resolved()
	n := newNode(&root, nil, "")
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if n.leaf() {
			out = append(out, path[1:])
		}
		for _, c := range n.named {
			walk(c, path+"/"+c.name)
		}
		if n.template != nil {
			out = append(out, (path + "/*")[1:])
		}
	}
	walk(n, "")
	return out
}

// What the run counts, from the decisions, is what the tree counts.
func TestRowsAreTheTreesCounters(t *testing.T) {
	f, l := parse(t, string(config.ExampleTree), string(config.ExampleLoad))
	r, err := newRun(f, Options{Step: time.Second, Seed: 3, Top: 1000})
	require.NoError(t, err)
	run, err := r.load(context.Background(), l)
	require.NoError(t, err)
	checkRun(t, run)
	stats := map[string][5]int64{}
	for _, s := range r.tree.Stats(r.now) {
		stats[s.Path] = [5]int64{s.Wants, s.Gets, s.Own, s.Borrows, s.Lends}
	}
	rest := [5]int64{}
	for _, x := range run.Rows {
		have := [5]int64{x.Wants, x.Gets, x.Own, x.Borrows, x.Lends}
		if x.Depth < 2 {
			require.Equal(t, stats[x.Path], have, x.Path)
			continue
		}
		for i := range rest {
			rest[i] += have[i]
		}
	}
	for path, s := range stats {
		if strings.Contains(path, "/") {
			for i := range rest {
				rest[i] -= s[i]
			}
		}
	}
	require.Zero(t, rest, "the template's children, some of which the tree has dropped")
}

func TestSameSeedSameBytes(t *testing.T) {
	render := func(seed uint64) string {
		f, l := parse(t, string(config.ExampleTree), string(config.ExampleLoad))
		run, err := Load(context.Background(), f, l, Options{Step: time.Second, Seed: seed, Top: 20})
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, report.JSON(&b, run))
		return b.String()
	}
	first := render(1)
	require.Equal(t, first, render(1))
	require.NotEqual(t, first, render(2))
}

func TestArrivals(t *testing.T) {
	tree := "tree: t\nglobal: {rate: 100000/s, children: {a: {rate: 10000/s}}}\n"
	for name, c := range map[string]struct {
		flow  string
		wants []int64
		slack float64
	}{
		"constant":  {"arrivals: constant, rate: 300/s", []int64{300, 300, 300, 300}, 0},
		"awkward":   {"arrivals: constant, rate: 7/3s", []int64{3, 2, 2, 3}, 0},
		"slow":      {"arrivals: constant, rate: 30/m", []int64{1, 0, 1, 0}, 0},
		"costly":    {"arrivals: constant, rate: 300/s, cost: 100", []int64{300, 300, 300, 300}, 0},
		"window":    {"arrivals: constant, rate: 300/s, from: 1s, to: 2500ms", []int64{0, 300, 150, 0}, 0},
		"onoff":     {"arrivals: onoff, rate: 300/s, on: 500ms, off: 1s", []int64{150, 150, 0, 150}, 0},
		"burst":     {"arrivals: burst, at: 1900ms, count: 200, over: 200ms", []int64{0, 100, 100, 0}, 0},
		"at once":   {"arrivals: burst, at: 1s, count: 200", []int64{0, 200, 0, 0}, 0},
		"poisson":   {"arrivals: poisson, rate: 4000/s", []int64{4000, 4000, 4000, 4000}, 0.06},
		"random":    {"arrivals: poisson, rate: 4000/s, cost: {min: 1, max: 3}", []int64{4000, 4000, 4000, 4000}, 0.08},
		"randomly":  {"arrivals: constant, rate: 4000/s, cost: {min: 1, max: 20}", []int64{4000, 4000, 4000, 4000}, 0.01},
		"unlimited": {"arrivals: constant, rate: 9000/s", []int64{9000, 9000, 9000, 9000}, 0},
	} {
		run := simulate(t, tree, "duration: 4s\nflows:\n  - {class: a, "+c.flow+"}\n", Options{})
		for i, want := range c.wants {
			require.InDelta(t, want, run.Rows[1].Series.Wants[i], c.slack*float64(want), "%s, step %d of %v", name, i, run.Rows[1].Series.Wants)
		}
		require.Equal(t, run.Rows[1].Wants, run.Rows[1].Gets, name)
	}
}

func TestClientsByZipf(t *testing.T) {
	tree := "tree: t\nglobal: {rate: 100000/s, children: {\"*\": {rate: 10000/s}}}\n"
	run := simulate(t, tree, "duration: 10s\nflows:\n  - {class: \"*\", clients: 100, zipf: 1, arrivals: constant, rate: 5000/s}\n", Options{Top: 3})
	require.Len(t, run.Rows, 1+3+1)
	h := 0.0
	for k := 1; k <= 100; k++ {
		h += 1 / float64(k)
	}
	for k := 1; k <= 3; k++ {
		require.Equal(t, fmt.Sprint("client-", k), run.Rows[k].Path)
		require.InEpsilon(t, 50000/h/float64(k), run.Rows[k].Wants, 0.05)
	}
	// Far more clients than are watched: the largest have the rows, whoever came first.
	run = simulate(t, tree, "duration: 10s\nflows:\n  - {class: \"*\", clients: 5000, zipf: 1, arrivals: constant, rate: 5000/s}\n", Options{Top: 3})
	for k := 1; k <= 3; k++ {
		require.Equal(t, fmt.Sprint("client-", k), run.Rows[k].Path)
		require.InEpsilon(t, 50000/(h+math.Log(50))/float64(k), run.Rows[k].Wants, 0.07)
	}
	run = simulate(t, tree, "duration: 10s\nflows:\n  - {class: \"*\", clients: 4, arrivals: poisson, rate: 5000/s}\n", Options{})
	for _, r := range run.Rows[1:5] {
		require.InEpsilon(t, 12500, r.Wants, 0.05, "%s: equal shares", r.Path)
	}
}

// A cost that can never pass is rejected, said once, and does not hold up a flow.
func TestImpossibleCosts(t *testing.T) {
	run := simulate(t, "tree: t\nglobal: {rate: 100/s, children: {a: {rate: 10/s}, b: {rate: 10/s}}}\n", `
duration: 10s
flows:
  - {class: a, arrivals: constant, rate: 110/s, cost: 11}
  - {class: b, arrivals: backlogged, cost: 11}
`, Options{})
	require.Equal(t, rowOf(t, run, "a").Wants, rowOf(t, run, "a").Rejected)
	require.Len(t, run.Notes, 2)
	require.Contains(t, run.Notes[0], `100 requests cost more than can ever pass, up to 11,`)
	require.Contains(t, run.Notes[0], `cost 11 is over the cburst 10 of "a"`)
	require.Zero(t, rowOf(t, run, "a").Fair)
}

func TestFurtherLimitsAreFair(t *testing.T) {
	run := simulate(t, "tree: t\nglobal: {rate: 100/s, children: {a: {rate: 50/s, also: [5/s, 100/h]}}}\n",
		"duration: 60s\nflows:\n  - {class: a, arrivals: constant, rate: 20/s}\n", Options{})
	a := rowOf(t, run, "a")
	require.InDelta(t, 101, a.Gets, 1)
	require.InDelta(t, a.Gets, a.Fair, 2)
}

func TestInterruptedRunKeepsWhatItHas(t *testing.T) {
	f, l := parse(t, twoTenants, "duration: 1h\nflows:\n  - {class: a, arrivals: constant, rate: 100/s}\n")
	ctx, cancel := context.WithCancel(context.Background())
	run, err := Load(ctx, f, l, Options{Step: time.Second, Progress: func(done float64) {
		if done > 0.1 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	checkRun(t, run)
	require.InDelta(t, 360, run.Seconds, 60)
	require.Len(t, run.Rows[0].Series.Gets, int(math.Ceil(run.Seconds)))
}

// Children of templates of templates: rows for the largest, sums right at each level.
func TestTenantsWithClients(t *testing.T) {
	tree := `tree: t
global:
  rate: 1000/s
  children:
    "*":
      rate: 100/s
      ceil: 500/s
      max: 40
      children:
        web: {rate: 10/s, ceil: 100/s}
        "*": {rate: 1/s, ceil: 50/s}
`
	f, err := config.Parse("t", []byte(tree))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "trace.csv")
	var b strings.Builder
	b.WriteString("time,class,cost\n")
	offered := int64(0)
	for i := range 20_000 {
		offered += int64(1 + i%3)
		tenant, client := i*i%97, i%53
		name := fmt.Sprint("c", client)
		if client%5 == 0 {
			name = "web"
		}
		fmt.Fprintf(&b, "%d.%03d,t%d/%s,%d\n", i/1000, i%1000, tenant, name, 1+i%3)
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	for _, top := range []int{0, 1, 3, 1000} {
		run := replay(t, f, path, Options{Step: time.Second, Top: top}, trace.Options{})
		checkRun(t, run)
		require.Equal(t, offered, run.Rows[0].Wants, "top %d", top)
	}
}

func replay(t testing.TB, f *config.File, path string, o Options, to trace.Options) *result.Run {
	t.Helper()
	s, err := trace.Scan(context.Background(), path, to)
	require.NoError(t, err)
	run, err := Trace(context.Background(), f, path, s, to, o)
	require.NoError(t, err)
	return run
}

// Memory does not grow with the names in a trace, only with those alive.
func TestMemoryIsBounded(t *testing.T) {
	f, err := config.Parse("t", []byte("tree: t\nglobal: {rate: 1000/s, children: {free: {rate: 500/s, children: {\"*\": {rate: 5/s, max: 2000}}}}}\n"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "trace.csv")
	write := func(n int) {
		var b strings.Builder
		b.WriteString("time,class,cost\n")
		for i := range n {
			fmt.Fprintf(&b, "%d.%03d,free/name-%d,1\n", i/1000, i%1000, i)
		}
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	}
	heap := func(n int) uint64 {
		write(n)
		r, err := newRun(f, Options{Step: time.Second, Top: 5})
		require.NoError(t, err)
		s, err := trace.Scan(context.Background(), path, trace.Options{})
		require.NoError(t, err)
		run, err := r.trace(context.Background(), path, s, trace.Options{})
		require.NoError(t, err)
		checkRun(t, run)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		runtime.KeepAlive(r)
		return m.HeapAlloc
	}
	small, large := heap(20_000), heap(200_000)
	require.Less(t, large, small+8<<20, "ten times the names")
}

// Requests make no garbage, whether their leaf has a handle, or is made and forgotten over
// and over.
func TestRequestsMakeNoGarbage(t *testing.T) {
	f, err := config.Parse("t", config.ExampleTree)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "trace.csv")
	allocs := func(seconds int) float64 {
		l, err := config.ParseLoad("l", fmt.Appendf(nil, "duration: %ds\nflows:\n  - {class: \"free/*\", clients: 2000, arrivals: poisson, rate: 2000/s}\n", seconds), "")
		require.NoError(t, err)
		var b strings.Builder
		b.WriteString("time,class,cost\n")
		for i := range 2000 * seconds {
			fmt.Fprintf(&b, "%d.%04d,free/%d,1\n", i/2000, i%2000*5, i*31%2000)
		}
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		s, err := trace.Scan(t.Context(), path, trace.Options{})
		require.NoError(t, err)
		return testing.AllocsPerRun(1, func() {
			_, err := Load(t.Context(), f, l, Options{Step: time.Second, Top: 5})
			require.NoError(t, err)
			_, err = Trace(t.Context(), f, path, s, trace.Options{}, Options{Step: time.Second, Top: 5})
			require.NoError(t, err)
		})
	}
	const seconds = 10
	require.Less(t, allocs(2*seconds)-allocs(seconds), 0.05*2*2000*seconds)
}

func TestTraceClassesBelowTheOnlyTemplate(t *testing.T) {
	f, err := config.Parse("t", config.ExampleTree)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "trace.csv")
	require.NoError(t, os.WriteFile(path, []byte("time,class,cost\n0,acme,1\n0.5,alice,2\n1,free/bob,3\n"), 0o600))
	run := replay(t, f, path, Options{Step: time.Second, Top: 5}, trace.Options{})
	require.Equal(t, int64(1), rowOf(t, run, "acme").Wants)
	require.Equal(t, int64(2), rowOf(t, run, "free/alice").Wants)
	require.Equal(t, int64(3), rowOf(t, run, "free/bob").Wants)
	require.Contains(t, run.Notes[0], `children of "free"`)

	require.NoError(t, os.WriteFile(path, []byte("time,class,cost\n0,acme,1\n0.5,alice,2\n"), 0o600))
	run = replay(t, f, path, Options{Step: time.Second, Top: 5, Map: []string{"free"}}, trace.Options{})
	require.Equal(t, int64(1), rowOf(t, run, "free/acme").Wants)

	s, err := trace.Scan(context.Background(), path, trace.Options{})
	require.NoError(t, err)
	_, err = Trace(context.Background(), f, path, s, trace.Options{}, Options{Step: time.Second, Map: []string{"beta"}})
	require.ErrorContains(t, err, "--map")
}

// What comes at the very end belongs to the last step, also when that is full.
func TestTheVeryEndOfATrace(t *testing.T) {
	f, err := config.Parse("t", config.ExampleTree)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "trace.csv")
	for text, steps := range map[string]int{"0,acme,1\n1,acme,1\n2,acme,1\n3,acme,2\n": 3, "5,acme,3\n5,acme,2\n": 1, "0,acme,2\n2.5,acme,3\n": 3} {
		require.NoError(t, os.WriteFile(path, []byte("time,class,cost\n"+text), 0o600))
		run := replay(t, f, path, Options{Step: time.Second, Top: 5}, trace.Options{})
		checkRun(t, run)
		require.Equal(t, int64(5), run.Rows[1].Gets)
		require.InDelta(t, 5, run.Rows[1].Fair, 1e-9)
		require.Len(t, run.Rows[0].Series.Gets, steps)
	}
}

func TestRealTraces(t *testing.T) {
	const data = "../../../shared/data/"
	if _, err := os.Stat(data); err != nil {
		t.Skip("recorded traffic is not in this checkout")
	}
	f, err := config.Parse("tree.yaml", config.ExampleTree)
	require.NoError(t, err)
	run := replay(t, f, data+"access.log", Options{Step: 5 * time.Minute, Top: 20}, trace.Options{Reorder: 2 * time.Minute})
	checkRun(t, run)
	require.Equal(t, int64(5000), run.Rows[0].Wants)
	require.Zero(t, rowOf(t, run, "acme").Wants)

	f, err = config.Parse("llm.yaml", []byte(`tree: llm
unit: tokens
global:
  rate: 12000/s
  burst: 200000
  children:
    code: {rate: 5000/s, ceil: 12000/s, burst: 50000}
    conv: {rate: 5000/s, ceil: 12000/s, burst: 50000}
`))
	require.NoError(t, err)
	run = replay(t, f, data+"llm_tokens.csv", Options{Step: 2 * time.Second, Top: 20}, trace.Options{Reorder: 2 * time.Minute})
	checkRun(t, run)
	require.Equal(t, int64(25_768_854), run.Rows[0].Wants)
	require.InEpsilon(t, run.Rows[0].Fair, float64(run.Rows[0].Gets), 0.02)
}

func BenchmarkLoad(b *testing.B) {
	f, l := parse(b, string(config.ExampleTree), "duration: 10s\nflows:\n  - {class: acme, arrivals: constant, rate: 100000/s}\n  - {class: \"free/*\", clients: 1000, zipf: 1.1, arrivals: constant, rate: 100000/s}\n")
	decisions := int64(0)
	for b.Loop() {
		run, err := Load(context.Background(), f, l, Options{Step: time.Second, Top: 20})
		require.NoError(b, err)
		decisions += run.Rows[0].Wants
	}
	b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
}
