package htb

import (
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

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

// leave forgets gateway g.
func (c *common) leave(g int) {
	for _, k := range c.classes {
		delete(k.heard, g)
		delete(k.booked, g)
	}
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
			if ms%max(1, interval/Drifts) == 0 {
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
