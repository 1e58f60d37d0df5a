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

// common is a store that adds up what twins report, exactly.
type common struct {
	classes map[string]*commonClass
}

type commonClass struct {
	tat    [2]Ticks
	total  [2]int64
	booked map[int][2]int64
	heard  map[int]Time
}

// tell books what gateway g reports and returns the answers.
func (c *common) tell(now Time, g int, reports []Report) []Shared {
	if c.classes == nil {
		c.classes = map[string]*commonClass{}
	}
	out := make([]Shared, len(reports))
	for i, r := range reports {
		k := c.classes[r.Path]
		if k == nil {
			k = &commonClass{booked: map[int][2]int64{}, heard: map[int]Time{}}
			c.classes[r.Path] = k
		}
		k.heard[g] = now
		was, ok := k.booked[g]
		if !ok {
			was = r.Base
		}
		k.booked[g] = r.Used
		for j, l := range [...]Limit{r.Rate, r.Ceil} {
			s, _ := algo.NewScale(l.Rate)
			b := s.Bucket(l.Rate, l.Burst)
			if more := r.Used[j] - was[j]; more >= 0 {
				k.tat[j] = b.Charge(k.tat[j], now, s.Cost(more))
			} else {
				k.tat[j] = b.Refund(k.tat[j], s.Cost(-more))
			}
			k.total[j] += r.Used[j] - was[j]
			full, ok := b.Reaches(k.tat[j])
			if ok {
				out[i].Owed[j] = max(0, full.Sub(now))
			}
			out[i].Total[j] = k.total[j]
		}
		for _, at := range k.heard {
			if now.Sub(at) < time.Second {
				out[i].Gateways++
			}
		}
	}
	return out
}

// fleet is gateways that share a tree by a store.
type fleet struct {
	store common
	trees []*Tree
	trip  time.Duration // of a report and its answer
	out   func(now Time, gateway int) bool
}

// run lets every gateway decide on what ask wants in each millisecond and returns what
// was admitted, by millisecond and gateway.
func (f *fleet) run(t require.TestingT, spec Spec, gateways int, from, until time.Duration, ask func(ms, gateway int) (n int, cost int64, names []string)) [][]int64 {
	type flight struct {
		at      Time
		reports []Report
		answers []Shared
	}
	if f.trees == nil {
		for range gateways {
			tree, err := New(spec)
			require.NoError(t, err)
			f.trees = append(f.trees, tree)
		}
	}
	flights := make([][]flight, gateways)
	interval := int(spec.SyncEvery() / time.Millisecond)
	var got [][]int64
	for ms := int(from / time.Millisecond); ms < int(until/time.Millisecond); ms++ {
		now := Time(ms) * Time(time.Millisecond)
		row := make([]int64, gateways)
		for g, tree := range f.trees {
			if ms%max(1, interval/drifts) == 0 {
				tree.Drift(now)
			}
			for len(flights[g]) > 0 && flights[g][0].at <= now {
				fl := flights[g][0]
				flights[g] = flights[g][1:]
				for i := range fl.reports {
					tree.Reconcile(now, fl.reports[i], fl.answers[i])
				}
			}
			if (ms+g*interval/gateways)%max(1, interval/8) == 0 && len(flights[g]) == 0 && (f.out == nil || !f.out(now, g)) {
				if r := tree.Reports(now, nil); len(r) > 0 {
					flights[g] = append(flights[g], flight{now.Add(f.trip), r, f.store.tell(now.Add(f.trip/2), g, r)})
				}
			}
			n, cost, names := ask(ms, g)
			for range n {
				d, err := tree.Allow(now, cost, names...)
				require.NoError(t, err)
				if d.Allowed {
					row[g] += cost
				}
			}
		}
		got = append(got, row)
	}
	return got
}

// sums returns what was admitted in all, and by each gateway.
func sums(got [][]int64) (all int64, each []int64) {
	each = make([]int64, len(got[0]))
	for _, row := range got {
		for g, n := range row {
			each[g] += n
			all += n
		}
	}
	return all, each
}

// overshoot returns by how much any window went over burst + rate*window, in units.
func overshoot(got [][]int64, perSecond, burst float64) (worst float64) {
	over := 0.0 // of the worst window that ends here, without the burst
	for _, row := range got {
		over = max(0, over)
		for _, n := range row {
			over += float64(n)
		}
		worst = max(worst, over-perSecond/1000-burst)
		over -= perSecond / 1000
	}
	return worst
}

// poisson says how many requests of a stream come in a millisecond.
func poisson(r *rand.Rand, perSecond float64) (n int) {
	for at := r.ExpFloat64() * 1000 / perSecond; at < 1; at += r.ExpFloat64() * 1000 / perSecond {
		n++
	}
	return n
}

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

// TestTwinsKeepTheBound: whatever is asked, no window admits more than the bound that
// docs/gateways.md states.
func TestTwinsKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gateways := rapid.IntRange(1, 6).Draw(t, "gateways")
		rate := rapid.Int64Range(20, 5000).Draw(t, "rate")
		burst := rapid.Int64Range(1, 2*rate).Draw(t, "burst")
		sync := time.Duration(rapid.SampledFrom([]int{16, 40, 80}).Draw(t, "sync")) * time.Millisecond
		spec := Spec{Rate: algo.PerSecond(rate), Burst: burst, Sync: sync}
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		load := make([]float64, gateways)
		f := fleet{trip: time.Duration(rapid.IntRange(0, 5).Draw(t, "trip")) * time.Millisecond}
		got := f.run(t, spec, gateways, 0, 4*time.Second, func(ms, g int) (int, int64, []string) {
			if r.IntN(200) == 0 {
				load[g] = 0
				if r.IntN(3) > 0 {
					load[g] = r.ExpFloat64() * float64(rate) * 3
				}
			}
			if load[g] == 0 {
				return 0, 1, nil
			}
			return poisson(r, load[g]), 1, nil
		})
		most := float64(gateways-1)*float64(burst) + float64(gateways)*float64(rate)*sync.Seconds() + float64(gateways)
		if over := overshoot(got, float64(rate), float64(burst)); over > most {
			t.Fatalf("a window is over by %.1f, the bound is %.1f", over, most)
		}
	})
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
