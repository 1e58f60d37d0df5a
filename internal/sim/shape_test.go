package sim

import (
	"context"
	"fmt"
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

// The tables of REFERENCE: the HTB user guide's E trees, MikroTik's M trees and the two
// agencies of Floyd and Jacobson, in both dialects, and OMNeT++'s in the kernel's: all
// through the packet scheduler, within 1 % of the link.
func TestPublishedShares(t *testing.T) {
	// quantum in proportion to rate, a few items a turn as in the guide
	const e1 = `{rate: 1000/s, children: {"10": {rate: 300/s, quantum: 3, ceil: 1000/s, B}, "11": {rate: 100/s, quantum: 1, ceil: 1000/s, B}, "12": {rate: 600/s, quantum: 6, ceil: 1000/s, B}}}`
	const e2 = `{rate: 1000/s, children: {A: {rate: 400/s, ceil: 1000/s, PA, children: {"10": {rate: 300/s, quantum: 3, ceil: 1000/s, P10, B}, "11": {rate: 100/s, quantum: 1, ceil: 1000/s, P11, B}}}, "12": {rate: 600/s, quantum: 6, ceil: 1000/s, P12, B}}}`
	const e3 = `{rate: 1000/s, children: {A: {rate: 400/s, ceil: 600/s, children: {"10": {rate: 300/s, quantum: 3, ceil: 600/s, B}, "11": {rate: 100/s, quantum: 1, ceil: 200/s, B}}}, "12": {rate: 600/s, quantum: 6, ceil: 1000/s, B}}}`
	prio := func(tree string, pa, p10, p11, p12 int) string {
		return strings.NewReplacer("PA", fmt.Sprint("prio: ", pa), "P10", fmt.Sprint("prio: ", p10), "P11", fmt.Sprint("prio: ", p11), "P12", fmt.Sprint("prio: ", p12)).Replace(tree)
	}
	m := func(q02, q03, p02, p03, p04, p05 int) string {
		return fmt.Sprintf(`{rate: 1000/s, children: {Q02: {rate: %d/s, ceil: 1000/s, prio: %d, children: {Q04: {rate: 200/s, ceil: 1000/s, prio: %d, B}, Q05: {rate: 200/s, ceil: 1000/s, prio: %d, B}}}, Q03: {rate: %d/s, ceil: 1000/s, prio: %d, B}}}`,
			100*q02, p02, p04, p05, 100*q03, p03)
	}
	const agencies = `{rate: 1500/s, children: {A: {rate: 1050/s, ceil: 1500/s, children: {vid: {rate: 450/s, ceil: 1500/s, prio: 1, B}, data: {rate: 600/s, ceil: 1500/s, prio: 2, B}}}, B: {rate: 450/s, ceil: 1500/s, children: {vid: {rate: 150/s, ceil: 1500/s, prio: 1, B}, data: {rate: 300/s, ceil: 1500/s, prio: 2, B}}}}}`
	s1 := `{rate: 500/s, children: {`
	for i, rc := range [][2]int{{3, 20}, {6, 25}, {9, 30}, {12, 35}, {15, 40}} {
		s1 += fmt.Sprintf(`"%d": {rate: %d/s, ceil: %d/s, quantum: 2, B}, `, i, 10*rc[0], 10*rc[1])
	}
	s1 = strings.TrimSuffix(s1, ", ") + "}}"
	const s2 = `{rate: 500/s, children: {C1: {rate: 200/s, ceil: 400/s, children: {"0": {rate: 30/s, ceil: 200/s, quantum: 2, B}, "1": {rate: 60/s, ceil: 250/s, quantum: 2, B}, "2": {rate: 90/s, ceil: 300/s, quantum: 2, B}}}, C2: {rate: 300/s, ceil: 400/s, children: {"3": {rate: 120/s, ceil: 350/s, quantum: 2, B}, "4": {rate: 150/s, ceil: 400/s, quantum: 2, B}}}}}`
	const s3 = `{rate: 500/s, children: {"0": {rate: 50/s, ceil: 300/s, prio: 0, quantum: 2, B}, "1": {rate: 50/s, ceil: 300/s, prio: 1, quantum: 2, B}}}`
	type shares_ = map[string]float64
	for name, c := range map[string]struct {
		tree     string
		scale    float64
		link     float64
		offers   float64
		want     shares_ // leaves that are on, and what they get
		dialects string
	}{
		"E1 all":    {e1, 10, 100, 90, shares_{"10": 30, "11": 10, "12": 60}, "sk"},
		"E1 10 off": {e1, 10, 100, 90, shares_{"11": 14.29, "12": 85.71}, "sk"},
		"E1 11 off": {e1, 10, 100, 90, shares_{"10": 33.33, "12": 66.67}, "sk"},
		"E1 12 off": {e1, 10, 100, 90, shares_{"10": 75, "11": 25}, "sk"},
		"E1 only":   {e1, 10, 100, 90, shares_{"10": 90}, "sk"},
		"E2 all":    {prio(e2, 0, 0, 0, 0), 10, 100, 90, shares_{"A/10": 30, "A/11": 10, "12": 60}, "sk"},
		"E2 10 off": {prio(e2, 0, 0, 0, 0), 10, 100, 90, shares_{"A/11": 40, "12": 60}, "sk"},
		"E2 11 off": {prio(e2, 0, 0, 0, 0), 10, 100, 90, shares_{"A/10": 40, "12": 60}, "sk"},
		"E2 12 off": {prio(e2, 0, 0, 0, 0), 10, 100, 90, shares_{"A/10": 75, "A/11": 25}, "sk"},
		"E2 only":   {prio(e2, 0, 0, 0, 0), 10, 100, 90, shares_{"A/10": 90}, "sk"},
		"E3 all":    {e3, 10, 100, 90, shares_{"A/10": 30, "A/11": 10, "12": 60}, "sk"},
		"E3 10 off": {e3, 10, 100, 90, shares_{"A/11": 20, "12": 80}, "sk"},
		"E3 11 off": {e3, 10, 100, 90, shares_{"A/10": 40, "12": 60}, "sk"},
		"E3 12 off": {e3, 10, 100, 90, shares_{"A/10": 45, "A/11": 15}, "sk"},
		"E3 only":   {e3, 10, 100, 90, shares_{"A/10": 60}, "sk"},
		"E5 all k":  {prio(e2, 1, 1, 0, 1), 10, 100, 90, shares_{"A/10": 30, "A/11": 10, "12": 60}, "k"},
		"E5 10 k":   {prio(e2, 1, 1, 0, 1), 10, 100, 90, shares_{"A/11": 40, "12": 60}, "k"},
		"E5 12 k":   {prio(e2, 1, 1, 0, 1), 10, 100, 90, shares_{"A/10": 30, "A/11": 70}, "k"},
		"E5 all s":  {prio(e2, 0, 1, 0, 1), 10, 100, 90, shares_{"A/10": 30, "A/11": 10, "12": 60}, "s"},
		"E5 10 s":   {prio(e2, 0, 1, 0, 1), 10, 100, 90, shares_{"A/11": 40, "12": 60}, "s"},
		"E5 11 s":   {prio(e2, 0, 1, 0, 1), 10, 100, 90, shares_{"A/10": 40, "12": 60}, "s"},
		"E5 12 s":   {prio(e2, 0, 1, 0, 1), 10, 100, 90, shares_{"A/10": 30, "A/11": 70}, "s"},

		"M1":   {m(4, 6, 0, 1, 3, 5), 100, 10, 10, shares_{"Q03": 6, "Q02/Q04": 2, "Q02/Q05": 2}, "sk"},
		"M2 k": {m(4, 2, 0, 3, 1, 5), 100, 10, 10, shares_{"Q03": 2, "Q02/Q04": 6, "Q02/Q05": 2}, "k"},
		"M2 s": {m(4, 2, 1, 3, 1, 5), 100, 10, 10, shares_{"Q03": 2, "Q02/Q04": 6, "Q02/Q05": 2}, "s"},
		"M3 k": {m(8, 2, 0, 1, 3, 5), 100, 10, 10, shares_{"Q03": 2, "Q02/Q04": 6, "Q02/Q05": 2}, "k"},
		"M3 s": {m(8, 2, 2, 1, 3, 5), 100, 10, 10, shares_{"Q03": 2, "Q02/Q04": 6, "Q02/Q05": 2}, "s"},

		"FJ all":       {agencies, 1000, 1.5, 1.6, shares_{"A/vid": .45, "A/data": .6, "B/vid": .15, "B/data": .3}, "sk"},
		"FJ vidB off":  {agencies, 1000, 1.5, 1.6, shares_{"A/vid": .45, "A/data": .6, "B/data": .45}, "sk"},
		"FJ vidA off":  {agencies, 1000, 1.5, 1.6, shares_{"A/data": 1.05, "B/vid": .15, "B/data": .3}, "sk"},
		"FJ dataA off": {agencies, 1000, 1.5, 1.6, shares_{"A/vid": 1.05, "B/vid": .15, "B/data": .3}, "sk"},
		"FJ dataB off": {agencies, 1000, 1.5, 1.6, shares_{"A/vid": .45, "A/data": .6, "B/vid": .45}, "sk"},

		"S1 0":   {s1, 10, 50, 50, shares_{"0": 20}, "k"},
		"S1 01":  {s1, 10, 50, 50, shares_{"0": 20, "1": 25}, "k"},
		"S1 0-2": {s1, 10, 50, 50, shares_{"0": 13.67, "1": 16.67, "2": 19.67}, "k"},
		"S1 0-3": {s1, 10, 50, 50, shares_{"0": 8, "1": 11, "2": 14, "3": 17}, "k"},
		"S1 all": {s1, 10, 50, 50, shares_{"0": 4, "1": 7, "2": 10, "3": 13, "4": 16}, "k"},
		"S1 34":  {s1, 10, 50, 50, shares_{"3": 23.5, "4": 26.5}, "k"},
		"S1 4":   {s1, 10, 50, 50, shares_{"4": 40}, "k"},
		"S2 01":  {s2, 10, 50, 50, shares_{"C1/0": 18.5, "C1/1": 21.5}, "k"},
		"S2 0-2": {s2, 10, 50, 50, shares_{"C1/0": 10.33, "C1/1": 13.33, "C1/2": 16.33}, "k"},
		"S2 0-3": {s2, 10, 50, 50, shares_{"C1/0": 3.67, "C1/1": 6.67, "C1/2": 9.67, "C2/3": 30}, "k"},
		"S2 all": {s2, 10, 50, 50, shares_{"C1/0": 3.67, "C1/1": 6.67, "C1/2": 9.67, "C2/3": 13.5, "C2/4": 16.5}, "k"},
		"S2 34":  {s2, 10, 50, 50, shares_{"C2/3": 18.5, "C2/4": 21.5}, "k"},
		"S2 4":   {s2, 10, 50, 50, shares_{"C2/4": 40}, "k"},
		"S3":     {s3, 10, 50, 50, shares_{"0": 30, "1": 20}, "k"},
	} {
		for _, d := range c.dialects {
			dialect := map[rune]string{'s': "strict", 'k': "kernel"}[d]
			t.Run(name+" "+dialect, func(t *testing.T) {
				tree := "tree: t\nsemantics: " + dialect + "\nglobal: " + strings.ReplaceAll(c.tree, ", B}", ", burst: 2, cburst: 2}")
				offered := map[string]float64{}
				for leaf := range c.want {
					offered[leaf] = c.offers
				}
				got := shares(t, tree, c.scale, offered)
				for leaf, want := range c.want {
					require.InDelta(t, want, got[leaf], 0.01*c.link, "%s of %v", leaf, got)
				}
			})
		}
	}
}

// Isolation: what one agency does moves the other by less than 0.5 % of the link.
// (TestPublishedShares has the shares.)

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
