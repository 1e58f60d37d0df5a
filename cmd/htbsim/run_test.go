package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of the JSON, in full.
var (
	runKeys    = []string{"classes", "mode", "seconds", "step", "tree", "unit"}
	classKeys  = []string{"borrows", "delay_ms", "dropped", "expired", "fair", "gets", "lends", "own", "queued", "rejected", "series", "wants"}
	delayKeys  = []string{"max", "p50", "p99"}
	seriesKeys = []string{"fair", "gets", "wants"}
)

// decoded is the JSON of a run.
type decoded struct {
	Tree, Mode, Unit string
	Seconds, Step    float64
	Classes          map[string]decodedClass
	Gateways         *decodedGateways
}

type decodedClass struct {
	Wants, Gets, Rejected, Dropped, Expired, Queued, Own, Borrows, Lends int64
	Fair                                                                 float64
	Series                                                               struct {
		Wants, Gets []int64
		Fair        []float64
	}
}

// decode reads the JSON of a run and checks everything that holds for all runs. further
// are the keys that only some have.
func decode(t *testing.T, text string, further ...string) decoded {
	t.Helper()
	var raw map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &raw))
	require.Equal(t, slices.Sorted(slices.Values(append(further, runKeys...))), keys(raw))
	for path, c := range raw["classes"].(map[string]any) {
		class := c.(map[string]any)
		require.Equal(t, classKeys, keys(class), path)
		require.Equal(t, delayKeys, keys(class["delay_ms"]), path)
		require.Equal(t, seriesKeys, keys(class["series"]), path)
	}
	var d decoded
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	steps := int(math.Ceil(d.Seconds/d.Step - 1e-9))
	for path, c := range d.Classes {
		require.Equal(t, c.Wants, c.Gets+c.Rejected+c.Dropped+c.Expired+c.Queued, path)
		require.Equal(t, c.Own, c.Gets-c.Borrows, path)
		require.Len(t, c.Series.Wants, steps, path)
		require.Len(t, c.Series.Gets, steps, path)
		require.Len(t, c.Series.Fair, steps, path)
		require.Equal(t, c.Wants, sum(c.Series.Wants), path)
		require.Equal(t, c.Gets, sum(c.Series.Gets), path)
		require.InDelta(t, c.Fair, sum(c.Series.Fair), rounding(steps), path)
		for _, n := range []int64{c.Wants, c.Gets, c.Rejected, c.Dropped, c.Expired, c.Queued, c.Own, c.Borrows, c.Lends} {
			require.GreaterOrEqual(t, n, int64(0), path)
		}
		d.addsUp(t, path)
	}
	root := d.Classes["global"]
	require.NotNil(t, root.Series.Wants, "global is there")
	require.Zero(t, root.Borrows, "the root never borrows")
	return d
}

// addsUp checks a class against its children.
func (d decoded) addsUp(t *testing.T, path string) {
	t.Helper()
	var children decodedClass
	n := 0
	for other, c := range d.Classes {
		above := "global"
		if i := strings.LastIndex(other, "/"); i >= 0 {
			above = other[:i]
		}
		if above != path || other == "global" {
			continue
		}
		n++
		children.Wants += c.Wants
		children.Gets += c.Gets
		children.Rejected += c.Rejected
		children.Dropped += c.Dropped
		children.Expired += c.Expired
		children.Queued += c.Queued
		children.Borrows += c.Borrows
		children.Fair += c.Fair
	}
	if n == 0 {
		return
	}
	c := d.Classes[path]
	require.Equal(t, c.Wants, children.Wants, path)
	require.Equal(t, c.Gets, children.Gets, path)
	require.Equal(t, c.Rejected, children.Rejected, path)
	require.Equal(t, c.Dropped, children.Dropped, path)
	require.Equal(t, c.Expired, children.Expired, path)
	require.Equal(t, c.Queued, children.Queued, path)
	require.InDelta(t, c.Fair, children.Fair, rounding(n), path)
	require.Equal(t, c.Lends+c.Borrows, children.Borrows, "what the children of %s borrow is lent by it or passed on", path)
}

// rounding is how far the sum of n numbers given to a thousandth may be off.
func rounding(n int) float64 { return 0.0005*float64(n+1) + 1e-6 }

func sum[T int64 | float64](x []T) (s T) {
	for i := range x {
		s += x[i]
	}
	return s
}

func keys(m any) (names []string) {
	for k := range m.(map[string]any) {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// Without files and flags: the built-in tree and load.
func TestDefaultRun(t *testing.T) {
	folder(t, nil)
	table := works(t)
	golden(t, "good/default.golden", table)
	require.Equal(t, table, works(t, "run"))
	d := decode(t, works(t, "--json", "-"))
	require.Equal(t, []any{"api", "police", "requests", 20.0, 1.0}, []any{d.Tree, d.Mode, d.Unit, d.Seconds, d.Step})
	for line := range strings.SplitSeq(table, "\n") {
		require.Equal(t, strings.TrimRight(line, " "), line, "no blanks at the end of a line")
	}
	require.Empty(t, contents(t))
}

// The tree and the load of this folder come before those built in.
func TestDefaultFilesOfThisFolder(t *testing.T) {
	folder(t, map[string]string{"config/tree.yaml": goodTree, "config/load.yaml": goodLoad})
	require.Equal(t, works(t, "run", "--tree", "config/tree.yaml", "--load", "config/load.yaml"), works(t))
}

func TestCheck(t *testing.T) {
	folder(t, map[string]string{"one.yaml": "tree: one\nglobal: {rate: 5/m}\n"})
	golden(t, "good/check.golden", works(t, "check"))
	golden(t, "good/check-one.golden", works(t, "check", "--tree", "one.yaml"))
}

// A small load in every text format, and what it must come to: acme asks for less
// than its rate and gets all of it.
func TestSmallLoad(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": goodTree, "load.yaml": goodLoad})
	table := works(t, "run", "--tree", "tree.yaml", "--top", "2", "--json", "out.json", "--csv", "out.csv")
	golden(t, "good/small.golden", table)
	golden(t, "good/small.json", read(t, "out.json"))
	golden(t, "good/small.csv", read(t, "out.csv"))

	d := decode(t, read(t, "out.json"))
	require.Equal(t, int64(60), d.Classes["acme"].Wants)
	require.Equal(t, int64(60), d.Classes["acme"].Gets)
	require.InDelta(t, 60, d.Classes["acme"].Fair, 1e-9)

	lines := strings.Split(strings.TrimSpace(read(t, "out.csv")), "\n")
	require.Equal(t, "time,class,wants,gets,fair", lines[0])
	require.Len(t, lines, 1+3*len(d.Classes))
	for _, line := range lines[1:] {
		f := strings.Split(line, ",")
		at, err := strconv.ParseFloat(f[0], 64)
		require.NoError(t, err)
		s, step := d.Classes[f[1]].Series, int(at/d.Step)
		require.Equal(t, fmt.Sprint(s.Wants[step], s.Gets[step], s.Fair[step]), strings.Join(f[2:], " "), line)
	}
}

const nestedTree = `tree: nested
unit: tokens
global:
  rate: 1000/s
  children:
    acme: {rate: 400/s, ceil: 900/s, burst: 100}
    "o/x": {rate: 100/s, ceil: 200/s, also: [50/s]}
    idle: {rate: 100/s}
    tenants:
      rate: 300/s
      ceil: 1000/s
      children:
        "*":
          rate: 20/s
          ceil: 300/s
          children:
            "*": {rate: 5/s, ceil: 100/s, burst: 10, max: 30}
`

const nestedLoad = `duration: 7500ms
flows:
  - {class: acme, from: 1s, to: 6s, arrivals: backlogged, cost: {min: 1, max: 20}}
  - {class: acme, arrivals: burst, at: 2s, count: 5, cost: 150}
  - {class: o%2Fx, arrivals: onoff, on: 1s, off: 500ms, rate: 120/s}
  - {class: "tenants/a/*", clients: 100, zipf: 1.1, arrivals: poisson, rate: 400/s, cost: {min: 1, max: 4}}
  - {class: "tenants/b/*", clients: 5, arrivals: constant, rate: 50/s}
`

// The contract of the JSON holds for trees with everything in them: nested
// templates, odd names, costs that can never pass, a step that does not divide the
// time, idle classes, and however few rows there are.
func TestJSONContract(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": nestedTree, "load.yaml": nestedLoad})
	for _, top := range []string{"0", "1", "3", "1000"} {
		for _, step := range []string{"1s", "700ms", "10s"} {
			t.Run(top+" "+step, func(t *testing.T) {
				o := htbsim(t.Context(), "run", "--tree", "tree.yaml", "--top", top, "--step", step, "--json", "-")
				require.Equal(t, exitOK, o.code, o.stderr)
				require.Contains(t, o.stderr, "more than can ever pass")
				d := decode(t, o.stdout)
				for _, path := range []string{"global", "acme", "o%2Fx", "idle", "tenants", "tenants/*"} {
					require.Contains(t, d.Classes, path, "every class is there")
				}
				require.Equal(t, decodedClass{Series: d.Classes["idle"].Series}, d.Classes["idle"])
				require.GreaterOrEqual(t, d.Classes["acme"].Rejected, int64(5*150))
				require.Equal(t, 7.5, d.Seconds)
			})
		}
	}
}

// Same seed, same bytes, in every format; another seed, other bytes.
func TestSameSeedSameBytes(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": nestedTree, "load.yaml": nestedLoad})
	formats := []string{"json", "csv", "svg", "html"}
	all := func(seed string) map[string]string {
		made := map[string]string{}
		for _, plot := range formats[2:] {
			o := htbsim(t.Context(), "run", "--tree", "tree.yaml", "--seed", seed, "--json", "o.json", "--csv", "o.csv", "--plot", "o."+plot)
			require.Equal(t, exitOK, o.code, o.stderr)
			made["table"] = o.stdout
		}
		for _, f := range formats {
			made[f] = read(t, "o."+f)
		}
		return made
	}
	first, again, other := all("7"), all("7"), all("8")
	for name := range first {
		require.Equal(t, first[name], again[name], name)
		require.NotEqual(t, first[name], other[name], name)
	}
}

func TestStandardOutput(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": goodTree, "load.yaml": goodLoad})
	run := []string{"run", "--tree", "tree.yaml"}
	require.Empty(t, works(t, append(run, "--quiet", "--json", "o.json", "--csv", "o.csv")...), "--quiet prints nothing")
	require.Equal(t, read(t, "o.json"), works(t, append(run, "--json", "-")...), "JSON alone, no table")
	require.Equal(t, read(t, "o.json"), works(t, append(run, "--json", "-", "--quiet")...))
	require.Equal(t, read(t, "o.csv"), works(t, append(run, "--csv", "-")...))
	require.NotContains(t, works(t, run...), "\x1b", "no colour but on a terminal")
}

// --map, --class, --cost: where a trace goes and what it costs.
func TestTraceFlags(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": goodTree, "access.log": goodLog, "trace.csv": "time,class,cost\n0,ann,2\n3,acme,1\n"})
	run := func(args ...string) map[string]decodedClass {
		o := htbsim(t.Context(), append([]string{"run", "--tree", "tree.yaml", "--json", "-"}, args...)...)
		require.Equal(t, exitOK, o.code, o.stderr)
		return decode(t, o.stdout).Classes
	}
	got := run("--trace", "access.log")
	require.Equal(t, int64(1), got["free/192.0.2.1"].Wants)
	require.Equal(t, int64(1), got["free/192.0.2.2"].Wants)
	got = run("--trace", "access.log", "--class", "user")
	require.Equal(t, int64(1), got["free/ann"].Wants)
	got = run("--trace", "access.log", "--class", "prefix", "--cost", "bytes")
	require.Equal(t, int64(512), got["free/a"].Wants)
	require.Equal(t, int64(512), got["free/a"].Rejected, "above the cburst")
	got = run("--trace", "trace.csv")
	require.Equal(t, int64(1), got["acme"].Wants, "a class of the tree is itself")
	require.Equal(t, int64(2), got["free/ann"].Wants, "another one a client")
	got = run("--trace", "trace.csv", "--map", "free")
	require.Equal(t, int64(1), got["free/acme"].Wants)
	require.Zero(t, got["acme"].Wants)
}
