package htb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// TestTwinsShareALimit: four gateways, one limit of 2000/s, load skewed 5:1:1:1 and then
// turned round.
func TestTwinsShareALimit(t *testing.T) {
	for name, spec := range map[string]Spec{
		"leaf": {Rate: algo.PerSecond(2000), Burst: 200, Sync: 100 * time.Millisecond},
		"lender": {Rate: algo.PerSecond(2000), Sync: 100 * time.Millisecond, Children: []Spec{
			{Name: "*", Rate: algo.PerSecond(10), Ceil: algo.PerSecond(2000)},
		}},
		"covered": {Rate: algo.PerSecond(2000), Sync: 100 * time.Millisecond, Children: []Spec{
			{Name: "a", Rate: algo.PerSecond(400), Ceil: algo.PerSecond(2000), Sync: 100 * time.Millisecond},
			{Name: "b", Rate: algo.PerSecond(400), Ceil: algo.PerSecond(2000), Sync: 100 * time.Millisecond},
		}},
	} {
		for _, offered := range []float64{2200, 4000, 12000} {
			t.Run(fmt.Sprint(name, " ", offered), func(t *testing.T) {
				const gateways, seconds = 4, 20
				r := rand.New(rand.NewPCG(1, 2))
				f := fleet{trip: time.Millisecond}
				var asked [2][gateways]float64
				got := f.run(t, spec, gateways, 0, seconds*time.Second, func(ms, g int) (int, int64, []string) {
					part := 1. / 8
					if g == 0 && ms < seconds*500 || g == 3 && ms >= seconds*500 {
						part = 5. / 8
					}
					names := []string(nil)
					switch name {
					case "lender":
						names = []string{fmt.Sprint("client", r.IntN(4))}
					case "covered":
						names = []string{string(rune('a' + r.IntN(2)))}
					}
					n := poisson(r, offered*part)
					asked[ms/(seconds*500)][g] += float64(n)
					return n, 1, names
				})
				tree := f.trees[0]
				res := tree.Spec().Resolved()
				all, each := sums(got)
				floor := 2000. / gateways * sure
				for g := range each {
					want := min(floor*seconds/2, asked[0][g]) + min(floor*seconds/2, asked[1][g])
					assert.GreaterOrEqual(t, float64(each[g]), .99*want, "gateway %d", g)
				}
				burst := float64(res.CBurst)
				assert.LessOrEqual(t, overshoot(got, 2000, burst), (gateways-1)*burst+gateways*2000*.1)
				assert.GreaterOrEqual(t, float64(all), .95*2000*seconds)
				assert.LessOrEqual(t, float64(all), 1.01*2000*seconds+gateways*(burst+200))
				_, first := sums(got[5000:10000])
				_, last := sums(got[15000:])
				t.Logf("of %v/s: %v/s, over by %.0f (burst %v); at 5 s to 10 s %v, at 15 to 20 %v", offered, all/seconds, overshoot(got, 2000, burst), burst, per(first, 5), per(last, 5))
			})
		}
	}
}

func per(of []int64, by int64) []int64 {
	out := make([]int64, len(of))
	for i := range of {
		out[i] = of[i] / by
	}
	return out
}

// TestTwinsKeepTheBound: whatever is asked, in requests of any size, no window admits more
// than the bound that docs/gateways.md states.
func TestTwinsKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gateways := rapid.IntRange(1, 6).Draw(t, "gateways")
		rate := rapid.Int64Range(20, 5000).Draw(t, "rate")
		burst := rapid.Int64Range(1, 2*rate).Draw(t, "burst")
		sync := time.Duration(rapid.SampledFrom([]int{16, 40, 80}).Draw(t, "sync")) * time.Millisecond
		spec := Spec{Rate: algo.PerSecond(rate), Burst: burst, Sync: sync}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		load, cost := make([]float64, gateways), make([]int64, gateways)
		f := fleet{trip: time.Duration(rapid.IntRange(0, 2).Draw(t, "trip")) * time.Millisecond}
		got := f.run(t, spec, gateways, 0, 4*time.Second, func(ms, g int) (int, int64, []string) {
			if r.IntN(200) == 0 {
				load[g], cost[g] = 0, 1
				if r.IntN(3) > 0 {
					load[g] = r.ExpFloat64() * float64(rate) * 3
				}
				switch r.IntN(4) {
				case 0:
					cost[g] = 1 + r.Int64N(burst)
				case 1:
					cost[g] = burst
				}
			}
			if load[g] == 0 {
				return 0, 1, nil
			}
			return poisson(r, load[g]/float64(cost[g])), cost[g], nil
		})
		if over, most := overshoot(got, float64(rate), float64(burst)), stated(gateways, rate, burst, sync); over > most {
			t.Fatalf("a window is over by %.1f, the bound is %.1f", over, most)
		}
	})
}

// stated is by how much a window may be over burst + rate*window.
func stated(gateways int, rate, burst int64, sync time.Duration) float64 {
	n := float64(gateways)
	return (n-1)*float64(burst) + n*float64(rate)*sync.Seconds() + n
}

// What gateways admit too much, as each of them wakes up with a burst of its own, is repaid:
// over minutes they admit what the rate brings.
func TestTwinsRepay(t *testing.T) {
	for _, c := range []struct {
		seconds, gateways, every int
		burst                    int64
		greedy                   bool // the first is always asked for more
	}{{60, 6, 5000, 1000, true}, {60, 20, 3000, 1000, false}, {600, 10, 15_000, 5000, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			seconds := int64(c.seconds)
			spec := Spec{Rate: algo.PerSecond(1000), Burst: c.burst, Sync: 100 * time.Millisecond}
			f := fleet{trip: time.Millisecond}
			got := f.run(t, spec, c.gateways, 0, time.Duration(seconds)*time.Second, func(ms, g int) (int, int64, []string) {
				switch {
				case c.greedy && g == 0:
					return 2, 1, nil
				case ms%c.every == 0: // all at once: nobody knows of the others
					return int(c.burst), 1, nil
				}
				return 0, 1, nil
			})
			all, _ := sums(got)
			bound := stated(c.gateways, 1000, c.burst, spec.Sync)
			t.Logf("%d/s; the worst window was over by %.0f of %.0f", all/seconds, overshoot(got, 1000, float64(c.burst)), bound)
			assert.LessOrEqual(t, overshoot(got, 1000, float64(c.burst)), bound)
			assert.LessOrEqual(t, float64(all), 1000*float64(seconds)+bound)
		})
	}
}

// Who starts learns first what was used, and brings no floor along.
func TestGatewaysThatComeAndGo(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(1000), Burst: 1000, Sync: 100 * time.Millisecond}
	f := fleet{trip: time.Millisecond}
	lives := 0
	begin := func(now Time) *Tree {
		tree, err := New(spec)
		require.NoError(t, err)
		lives++
		return tree
	}
	f.trees = []*Tree{begin(0), begin(0), begin(0)}
	got := f.run(t, spec, 3, 0, 30*time.Second, func(ms, g int) (int, int64, []string) {
		if now := Time(ms) * Time(time.Millisecond); (ms+g*170)%500 == 0 {
			f.store.tell(now, g, f.trees[g].Twins(now, 1))
			f.store.leave(g)
			f.trees[g] = begin(now)
			reports := f.trees[g].Twins(now, 1)
			for i, s := range f.store.tell(now, g, reports) {
				f.trees[g].Reconcile(now, reports[i], s)
			}
		}
		return 3, 1, nil
	})
	require.Greater(t, lives, 150)
	all, _ := sums(got)
	require.LessOrEqual(t, float64(all), 30_000+1000+stated(3, 1000, 1000, spec.Sync))
}

// A gateway whose requests hold more than they cost has its floor, too.
func TestRefundsReturnToTheFloor(t *testing.T) {
	spec := Spec{Rate: algo.PerSecond(1000), Sync: 100 * time.Millisecond}
	f := fleet{trip: time.Millisecond}
	type open struct {
		*Hold
		until int
	}
	var holds []open
	used := int64(0)
	f.run(t, spec, 4, 0, 20*time.Second, func(ms, g int) (int, int64, []string) {
		if g > 0 {
			return 2, 1, nil
		}
		now := Time(ms) * Time(time.Millisecond)
		for len(holds) > 0 && holds[0].until <= ms {
			require.NoError(t, holds[0].Settle(now, 10))
			holds = holds[1:]
			used += 10
		}
		h, d, err := f.trees[0].Hold(now, 100)
		require.NoError(t, err)
		if d.Allowed {
			holds = append(holds, open{h, ms + 300})
		}
		return 0, 1, nil
	})
	require.Greater(t, used, int64(.9*225*20))
}

// A twin that a replacement makes does not report what was used before it, nor give it back.
func TestReplacingTwins(t *testing.T) {
	with := Spec{Rate: algo.PerSecond(1000), Children: []Spec{{Name: "a", Rate: algo.PerSecond(100), Sync: 100 * time.Millisecond}, {Name: "b", Rate: algo.PerSecond(100)}}}
	without := with.clone()
	without.Children[0].Sync = 0
	gone := with.clone()
	gone.Children = gone.Children[1:]
	tree, err := New(without)
	require.NoError(t, err)
	_, err = tree.Allow(0, 50, "a")
	require.NoError(t, err)
	require.NoError(t, tree.Replace(0, with))
	first := tree.Twins(0, 10)
	require.Len(t, first, 1)
	require.Equal(t, first[0].Base, first[0].Used)
	require.NoError(t, tree.Replace(0, gone))
	require.Empty(t, tree.Twins(0, 10))
	require.NoError(t, tree.Replace(0, with))
	second := tree.Twins(0, 10)
	require.Equal(t, [2]int64{}, second[0].Used)
	require.NotEqual(t, first[0].Copy, second[0].Copy)
	tree.Reconcile(0, first[0], Shared{Owed: [2]time.Duration{time.Hour, time.Hour}, Gateways: 1}) // of one that is no more
	d, err := tree.Allow(0, 100, "a")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// Only the class that misses its answers is out, from the second on, until there is one.
func TestAnOutageOfOneClass(t *testing.T) {
	tree, err := New(Spec{Rate: algo.PerSecond(1000), Children: []Spec{
		{Name: "a", Rate: algo.PerSecond(100), Sync: 100 * time.Millisecond}, {Name: "b", Rate: algo.PerSecond(100), Sync: 100 * time.Millisecond},
	}})
	require.NoError(t, err)
	passes := func(now Time, name string) bool {
		d, err := tree.Allow(now, 1, name)
		require.NoError(t, err)
		require.Equal(t, d.Allowed, d.Reason != NoStore)
		return d.Allowed
	}
	require.True(t, passes(0, "a"))
	require.True(t, passes(0, "b"))
	now, last := Time(0), Report{}
	for range 2 {
		now += Time(100 * time.Millisecond)
		require.True(t, passes(now, "a"))
		reports := tree.Reports(now, nil)
		require.Len(t, reports, 2)
		for _, r := range reports {
			if r.Path == "a" {
				last = r
				tree.Missed(now, r, Closed, 1)
			} else {
				tree.Reconcile(now, r, Shared{Gateways: 1})
			}
		}
	}
	require.False(t, passes(now, "a"))
	require.True(t, passes(now, "b"))
	tree.Reconcile(now, last, Shared{Gateways: 1})
	require.True(t, passes(now, "a"))
}

// Without answers a gateway does what the policy says, and all is well again with the
// first answer.
func TestTwinsInAnOutage(t *testing.T) {
	const rate, gateways = 1000, 4
	for _, c := range []struct {
		outage   Outage
		low, top float64 // per second of one of four gateways that is asked for more
	}{{Local, rate / gateways, 1.05 * rate / gateways}, {Closed, 0, 0}, {Open, 3000, 3000}} {
		t.Run(c.outage.String(), func(t *testing.T) {
			spec := Spec{Rate: algo.PerSecond(rate), Burst: 100, Sync: 100 * time.Millisecond}
			out := func(now Time, g int) bool { return now > Time(2*time.Second) && now < Time(12*time.Second) }
			f := fleet{trip: time.Millisecond, out: out}
			ask := func(ms, g int) (int, int64, []string) {
				for _, tree := range f.trees {
					switch ms {
					case 2200:
						tree.Disconnected(Time(2200*time.Millisecond), c.outage, 1)
					case 12000:
						tree.Disconnected(Time(12*time.Second), 0, 0)
					}
				}
				return 3, 1, nil
			}
			got := f.run(t, spec, gateways, 0, 20*time.Second, ask)
			_, each := sums(got[3000:12000])
			for g, n := range each {
				assert.InDelta(t, (c.low+c.top)/2, float64(n)/9, (c.top-c.low)/2+.01*c.top, "gateway %d", g)
			}
			tree := f.trees[0]
			d, err := tree.Allow(Time(20*time.Second), 0)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			all, _ := sums(got[len(got)-2000:]) // what an outage let through is repaid for a time
			assert.LessOrEqual(t, float64(all)/2, 1.05*rate)
		})
	}
}

// How many gateways share an outage is what was told of this one, not of one before.
func TestGatewaysOfAnOutage(t *testing.T) {
	tree, err := New(Spec{Rate: algo.PerSecond(1000), Burst: 10, Sync: 100 * time.Millisecond})
	require.NoError(t, err)
	now := Time(0)
	second := func() (admitted int) {
		for range 1000 {
			now = now.Add(time.Millisecond)
			tree.Drift(now)
			d, err := tree.Allow(now, 1)
			require.NoError(t, err)
			if d.Allowed {
				admitted++
			}
		}
		return admitted
	}
	for _, gateways := range []int{10, 2} {
		tree.Disconnected(now, Local, gateways)
		second()
		require.InDelta(t, 1000/gateways, second(), 20, "%d gateways", gateways)
		tree.Disconnected(now, 0, 0)
	}
}

// A refusal for want of the store says so, and when to come again.
func TestClosedRefusals(t *testing.T) {
	tree, err := New(Spec{Rate: algo.PerSecond(1000), Children: []Spec{
		{Name: "shared", Rate: algo.PerSecond(10), Sync: 100 * time.Millisecond}, {Name: "own", Rate: algo.PerSecond(10)},
	}})
	require.NoError(t, err)
	tree.Disconnected(0, Closed, 1)
	d, err := tree.Allow(0, 1, "shared")
	require.NoError(t, err)
	require.Equal(t, NoStore, d.Reason)
	require.Equal(t, "shared", d.RefusedBy())
	require.Equal(t, 100*time.Millisecond, d.RetryAfter)
	d, err = tree.Allow(0, 1, "own")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	tree.Disconnected(0, 0, 0)
	d, err = tree.Allow(0, 1, "shared")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// A child of a template is not dropped while the store may remember what it used: its
// next self would begin at 0, and seem to have given back all that.
func TestATwinIsRemembered(t *testing.T) {
	tree, err := New(Spec{Rate: algo.PerSecond(1000), Children: []Spec{{Name: "*", Rate: algo.PerSecond(10), Sync: 100 * time.Millisecond}}})
	require.NoError(t, err)
	store := common{}
	tell := func(now Time) (n int) {
		reports := tree.Reports(now, nil)
		for i, s := range store.tell(now, 0, reports) {
			tree.Reconcile(now, reports[i], s)
		}
		return len(reports)
	}
	at := func(ms int) Time { return Time(ms) * Time(time.Millisecond) }
	_, err = tree.Allow(0, 5, "alice")
	require.NoError(t, err)
	require.Equal(t, 1, tell(0))
	told := 0
	for ms := 100; ms < 10_000; ms += 100 {
		told += tell(at(ms))
		_, err := tree.Allow(at(ms), 0, "bob") // looks for children at rest
		require.NoError(t, err)
		rows := tree.Stats(at(ms))
		if live := rows[0].Live; ms < 2000 {
			require.Positive(t, live, "at %d ms", ms)
		}
	}
	require.Equal(t, warm, told)
	for _, row := range tree.Stats(at(10_000)) {
		require.NotEqual(t, "alice", row.Path, "she is gone")
	}
}
