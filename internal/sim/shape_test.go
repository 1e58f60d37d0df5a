package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/result"
)

func shape(t testing.TB, tree, load string) *result.Run {
	t.Helper()
	f, err := config.ParseShape("tree.yaml", []byte(tree))
	require.NoError(t, err)
	l, err := config.ParseLoad("load.yaml", []byte(load), f.Unit)
	require.NoError(t, err)
	run, err := Shape(context.Background(), f, l, Options{Step: time.Second, Top: 20})
	require.NoError(t, err)
	checkShaped(t, run)
	return run
}

// shares runs flows of constant rates (in the table's unit times scale) for 12 s and
// returns what each leaf got per second over the last 10, in the table's unit.
func shares(t testing.TB, tree string, scale float64, offered map[string]float64) map[string]float64 {
	t.Helper()
	var load strings.Builder
	load.WriteString("duration: 12s\nflows:\n")
	for leaf, units := range offered {
		fmt.Fprintf(&load, "  - {class: %q, arrivals: constant, rate: %d/s}\n", leaf, int64(units*scale))
	}
	run := shape(t, tree, load.String())
	got := map[string]float64{}
	for leaf := range offered {
		r := rowOf(t, run, leaf)
		got[leaf] = float64(total(r.Series.Gets[2:])) / 10 / scale
	}
	return got
}

// scenario is one line of a published table: a tree, what its leaves are offered and
// what they get, in the table's unit.
type scenario struct {
	Name, Source, Dialect, Tree string
	Scale                       float64 // units per second in the tree for one of the table's
	Link                        float64
	Offered, Gets               map[string]float64
}

// The published and derived tables of others, in both dialects where they speak of
// both, through the packet scheduler: each leaf within 1 % of the link.
func TestPublishedShares(t *testing.T) {
	data, err := os.ReadFile("testdata/published.json")
	require.NoError(t, err)
	var scenarios []scenario
	require.NoError(t, json.Unmarshal(data, &scenarios))
	worst := 0.0
	agencies := map[string]map[string]float64{}
	for _, c := range scenarios {
		t.Run(c.Name, func(t *testing.T) {
			got := shares(t, "tree: t\nsemantics: "+c.Dialect+"\nglobal: "+c.Tree, c.Scale, c.Offered)
			for leaf, want := range c.Gets {
				require.InDelta(t, want, got[leaf], 0.01*c.Link, "%s of %v", leaf, got)
				worst = max(worst, math.Abs(want-got[leaf])/c.Link)
			}
			if strings.HasPrefix(c.Name, "FJ") {
				agencies[c.Name] = got
			}
		})
	}
	t.Logf("worst of %d scenarios: %.2f %% of the link", len(scenarios), 100*worst)

	// Isolation: what one agency switches off moves the other by less than 0.5 % of the link.
	for _, dialect := range []string{"strict", "kernel"} {
		all := agencies["FJ all "+dialect]
		for off, other := range map[string]string{"vidA off": "B", "dataA off": "B", "vidB off": "A", "dataB off": "A"} {
			for _, leaf := range []string{"/vid", "/data"} {
				require.InDelta(t, all[other+leaf], agencies["FJ "+off+" "+dialect][other+leaf], 0.005*1.5, "%s %s: %s%s", off, dialect, other, leaf)
			}
		}
	}
}

// Kubernetes' borrowing between priority levels: 24 seats, two levels of rate 12 and
// ceil 16 seats; requests of 250 ms, so four to a seat and second; 24 and 6 clients.
func TestPoolOfSeats(t *testing.T) {
	run := shape(t, `tree: apf
global:
  rate: 96/s
  burst: 24
  pool: 24
  children:
    high: {rate: 48/s, ceil: 64/s, burst: 4, cburst: 4}
    low: {rate: 48/s, ceil: 64/s, burst: 4, cburst: 4}
`, `
duration: 15s
flows:
  - {class: high, arrivals: backlogged, service: 250ms}
  - {class: low, arrivals: constant, rate: 24/s, service: 250ms}
`)
	seats := func(path string) float64 {
		return float64(rowOf(t, run, path).Gets) / run.Seconds * 0.25
	}
	require.InDelta(t, 16, seats("high"), 0.5)
	require.InDelta(t, 6, seats("low"), 0.5)
}

// Slots, not rates, are scarce: they go by quantum, level by level.
func TestScarceSlotsGoByQuantum(t *testing.T) {
	run := shape(t, `tree: pool
global:
  rate: 100000/s
  pool: 8
  children:
    a: {rate: 1000/s, ceil: 100000/s, quantum: 3, children: {x: {rate: 500/s, ceil: 100000/s, quantum: 1}, y: {rate: 500/s, ceil: 100000/s, quantum: 1}}}
    b: {rate: 5000/s, ceil: 100000/s, quantum: 1}
`, `
duration: 60s
flows:
  - {class: a/x, arrivals: backlogged, service: {exponential: 20ms}}
  - {class: a/y, arrivals: backlogged, service: {exponential: 20ms}}
  - {class: b, arrivals: backlogged, service: {exponential: 20ms}}
`)
	root := float64(rowOf(t, run, "global").Gets)
	require.InEpsilon(t, 60*8/0.020, root, 0.03)
	require.InEpsilon(t, 0.25, float64(rowOf(t, run, "b").Gets)/root, 0.02)
	require.InEpsilon(t, 0.375, float64(rowOf(t, run, "a/x").Gets)/root, 0.02)
}

func TestQueuesAreBounded(t *testing.T) {
	run := shape(t, `tree: t
global:
  rate: 100/s
  children:
    a: {rate: 10/s, ceil: 10/s, burst: 1, limit: 5}
    b: {rate: 10/s, ceil: 10/s, burst: 1, maxWait: 1s}
`, `
duration: 10s
flows:
  - {class: a, arrivals: constant, rate: 20/s}
  - {class: b, arrivals: constant, rate: 20/s}
`)
	a, b := rowOf(t, run, "a"), rowOf(t, run, "b")
	require.InDelta(t, 101, a.Gets, 1)
	require.Equal(t, int64(5), a.Queued)
	require.InDelta(t, 94, a.Dropped, 2)
	require.LessOrEqual(t, a.Delay.Max, 600.0)
	require.InDelta(t, 101, b.Gets, 1)
	require.InDelta(t, 80, b.Expired, 5)
	require.LessOrEqual(t, b.Delay.Max, 1000.0)
	require.Greater(t, b.Delay.P99, 900.0)
}
