package htb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func mustScheduler(t require.TestingT, s Spec, d Dialect) *Scheduler {
	sched, err := NewScheduler(s, d)
	require.NoError(t, err)
	return sched
}

func put(t require.TestingT, s *Scheduler, now Time, cost int64, names ...string) *Item {
	i := &Item{Cost: cost}
	require.NoError(t, s.Enqueue(now, i, names...))
	return i
}

var dialects = map[string]Dialect{"strict": Strict, "kernel": Kernel}

func TestSchedulerIsFIFOPerLeaf(t *testing.T) {
	for name, d := range dialects {
		s := mustScheduler(t, perSecond("", 10, 0, perSecond("a", 5, 10)), d)
		var items []*Item
		for range 20 {
			items = append(items, put(t, s, 0, 1, "a"))
		}
		now := Time(0)
		for k := 0; k < 20; {
			i, next, ok := s.Dequeue(now)
			if !ok {
				require.Greater(t, next, now, name)
				now = next
				continue
			}
			require.Same(t, items[k], i, name)
			k++
		}
		_, next, ok := s.Dequeue(now)
		require.False(t, ok)
		require.Equal(t, Time(math.MaxInt64), next, "nothing is queued")
		require.Zero(t, s.Len())
	}
}

// With cburst 1 at the root, releases are evenly spaced, never two closer than 1/ceil,
// and exactly as many as the rate allows.
func TestLeakyOutput(t *testing.T) {
	root := perSecond("", 300, 0, perSecond("a", 100, 300), perSecond("b", 100, 300))
	root.Burst, root.CBurst = 1, 1
	for _, start := range []Time{0, -20 * second, math.MinInt64, 1 << 62} { // any time is a time
		checkLeaky(t, root, start)
	}
}

func checkLeaky(t *testing.T, root Spec, start Time) {
	s := mustScheduler(t, root, Strict)
	last := start - second
	now, n := start, 0
	for i := 0; now < start.Add(10*time.Second); {
		for s.Len() < 20 {
			put(t, s, now, 1, []string{"a", "b"}[i%2])
			i++
		}
		_, next, ok := s.Dequeue(now)
		if !ok {
			now = next
			continue
		}
		require.GreaterOrEqual(t, now-last, second/300, "release %d", n)
		last = now
		n++
	}
	require.InDelta(t, 3000, n, 1)
}

// Costs above every burst pass, alone, and are paid off: no spinning, the long-run
// rate kept.
func TestHugeCostsArePaidOff(t *testing.T) {
	for name, d := range dialects {
		a, b := perSecond("a", 100, 1000), perSecond("b", 900, 1000)
		a.Quantum, b.Quantum = 1, 1
		s := mustScheduler(t, perSecond("", 1000, 0, a, b), d)
		now, got, steps := Time(0), map[string]int64{}, 0
		for now < 3000*second {
			for s.Len() < 4 {
				put(t, s, now, 30_003, "a") // more than half a minute: Linux forgives debts above a minute
				put(t, s, now, 1_000, "b")
			}
			i, next, ok := s.Dequeue(now)
			if steps++; !ok {
				now = next
				continue
			}
			got[i.Leaf()] += i.Cost
		}
		require.InEpsilon(t, 3_000_000, got["a"]+got["b"], 0.02, "%s: %v", name, got)
		require.Less(t, steps, 20_000, name)
	}
}

// Cancelled items leave no trace: what happens is what would have happened had they
// never come.
func TestCancelLeavesNoTrace(t *testing.T) {
	for name, d := range dialects {
		rapid.Check(t, func(t *rapid.T) {
			spec := genTree(t, treeKind{maxBurst: 20})
			with, without := mustScheduler(t, spec, d), mustScheduler(t, spec, d)
			leaves := leavesOf(spec)
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
			now := Time(0)
			type twin struct{ a, b *Item }
			var order []twin
			for k := range 200 {
				now = now.Add(time.Duration(r.IntN(3)) * 7 * time.Millisecond)
				l := leaves[r.IntN(len(leaves))]
				cost := 1 + r.Int64N(5)
				order = append(order, twin{put(t, with, now, cost, l...), put(t, without, now, cost, l...)})
				for range r.IntN(3) { // comes, and goes
					require.True(t, with.Cancel(put(t, with, now, 3, l...), DropCancelled))
				}
				for k%3 == 0 {
					i, nextA, okA := with.Dequeue(now)
					j, nextB, okB := without.Dequeue(now)
					require.Equal(t, okB, okA, "%s, call %d", name, k)
					require.Equal(t, nextB, nextA, "%s, call %d", name, k)
					if !okA {
						break
					}
					found := false
					for _, o := range order {
						found = found || o.a == i && o.b == j
					}
					require.True(t, found, "%s: another item than without the cancelled ones", name)
				}
				require.Equal(t, without.Len(), with.Len())
			}
			require.False(t, with.Cancel(&Item{}, DropCancelled))
		})
	}
}

// Strict: no class ever gets more than cburst + ceil*window; in either dialect every
// item that came in goes out, once, and in-rate leaves are not starved.
func TestSchedulerKeepsCeils(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{maxBurst: 20})
		resolved := spec.ResolvedShape(Strict)
		s := mustScheduler(t, spec, Strict)
		leaves := leavesOf(spec)
		meters := map[string]*meter{}
		var walk func(c Spec, path ...string)
		walk = func(c Spec, path ...string) {
			meters[Path(path...)] = newMeter(c.Ceil, c.CBurst)
			for _, d := range c.Children {
				walk(d, append(path[:len(path):len(path)], d.Name)...)
			}
		}
		walk(resolved)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		now := Time(0)
		in, out := 0, 0
		for range 300 {
			if r.IntN(2) == 0 {
				put(t, s, now, 1, leaves[r.IntN(len(leaves))]...)
				in++
			}
			i, next, ok := s.Dequeue(now)
			if !ok {
				now = min(next, now.Add(time.Duration(r.IntN(50))*time.Millisecond))
				continue
			}
			out++
			names, err := ParsePath(i.Leaf())
			require.NoError(t, err)
			for k := range len(names) + 1 {
				m := meters[Path(names[:k]...)]
				require.True(t, m.fits(now, 1), "%s over its ceil", Path(names[:k]...))
				m.add(1)
			}
		}
		for s.Len() > 0 {
			_, next, ok := s.Dequeue(now)
			if ok {
				out++
				continue
			}
			require.Greater(t, next, now)
			now = next
		}
		require.Equal(t, in, out)
	})
}

// A leaf g that stays within its rate waits, under full load of borrowers, no longer than
//
//	own backlog/r_g + (sum over the other leaves of (B_j + 1) + one item per level) / (R - sum of r_j)
//
// with R the root's rate and costs of 1: strict serves it at level 0, before every
// borrower, and so without a break at R. At that level only other leaves within their
// rates go before it. In a time w they send no more than what they had saved, an item
// that took them into debt, and what comes in: B_j + 1 + r_j*w; and at each level one item
// may have had its turn already. So R*w is at most the sum of these, solved for w.
func TestInRateLeavesDoNotWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := genTree(t, treeKind{maxBurst: 10, wide: true})
		resolved := spec.ResolvedShape(Strict)
		s := mustScheduler(t, spec, Strict)
		leaves := leavesOf(spec)
		good := rapid.IntRange(0, len(leaves)-1).Draw(t, "good")
		var g Spec
		saved, rates := 0.0, 0.0
		for _, p := range flatten(resolved) {
			if len(p.Children) == 0 {
				saved += float64(p.Burst + 1)
				rates += p.Rate.PerSecond()
			}
		}
		g = resolved
		for _, n := range leaves[good] {
			for _, c := range g.Children {
				if c.Name == n {
					g = c
					break
				}
			}
		}
		saved -= float64(g.Burst + 1)
		rates -= g.Rate.PerSecond()
		bound := (saved + MaxDepth) / (spec.Rate.PerSecond() - rates)
		gap := g.Rate.Takes(1)
		backlog := map[*Item]int{}
		now, arrival := Time(0), Time(0)
		for n := 0; n < 40; {
			for i, l := range leaves { // the others always have something queued
				for i != good && n < 1_000_000 {
					x, err := s.tree.find(now, l, 1)
					require.NoError(t, err)
					if x.sh.fifo.Len() >= 3 {
						break
					}
					put(t, s, now, 1, l...)
				}
			}
			if arrival <= now {
				i := put(t, s, now, 1, leaves[good]...)
				backlog[i] = i.leaf.fifo.Len() - 1
				arrival = now.Add(gap)
			}
			i, next, ok := s.Dequeue(now)
			if !ok {
				now = min(next, max(arrival, now+1))
				continue
			}
			if i.Leaf() == Path(leaves[good]...) {
				require.LessOrEqual(t, time.Duration(now-i.Queued()).Seconds(), bound+(gap*time.Duration(backlog[i])).Seconds())
				n++
			}
		}
	})
}

func TestSchedulerErrors(t *testing.T) {
	a := perSecond("a", 5, 10)
	a.Limit = 2
	s := mustScheduler(t, perSecond("", 10, 0, a, perSecond("free", 5, 10, perSecond(Template, 1, 10))), Strict)
	put(t, s, 0, 1, "a")
	put(t, s, 0, 1, "a")
	require.ErrorIs(t, s.Enqueue(0, &Item{Cost: 1}, "a"), ErrFull)
	require.ErrorIs(t, s.Enqueue(0, &Item{Cost: 0}, "a"), ErrCost)
	require.ErrorIs(t, s.Enqueue(0, &Item{Cost: 1}, "b"), ErrUnknown)
	require.ErrorIs(t, s.Enqueue(0, &Item{Cost: 1}, "free"), ErrNotLeaf)
	require.Equal(t, 2, s.Len())
	_, err := NewScheduler(Spec{}, Strict)
	require.ErrorAs(t, err, &Mistakes{})
	i := put(t, s, 0, 1, "free", "x")
	require.Equal(t, "free/x", i.Leaf())
}

// Children of templates come and go in a scheduler, too: only with empty queues.
func TestSchedulerDropsChildrenAtRest(t *testing.T) {
	s := mustScheduler(t, perSecond("", 1000, 0, perSecond(Template, 5, 1000)), Strict)
	out := 0
	for k := range 5000 {
		now := Time(k) * second / 100
		put(t, s, now, 1, fmt.Sprint("client-", k))
		for {
			_, _, ok := s.Dequeue(now)
			if !ok {
				break
			}
			out++
		}
	}
	require.Equal(t, 5000, out)
	require.Less(t, s.tree.root.in.dyn.live, 400, "a token takes 0.2 s to come back, and children with a clock to wait for are looked at again after a second")
}

func TestSettlingReleasedItems(t *testing.T) {
	for name, d := range dialects {
		a := perSecond("a", 10, 10)
		a.Burst, a.CBurst = 10, 10
		s := mustScheduler(t, perSecond("", 10, 0, a), d)
		put(t, s, 0, 10, "a")
		i, _, ok := s.Dequeue(0)
		require.True(t, ok)
		require.NoError(t, s.Settle(0, i, 2))
		require.ErrorIs(t, s.Settle(0, i, -1), ErrCost)
		put(t, s, 0, 8, "a")
		_, _, ok = s.Dequeue(0)
		require.True(t, ok, name)
	}
}

func TestSchedulingDoesNotAllocate(t *testing.T) {
	for name, d := range dialects {
		s := mustScheduler(t, perSecond("", 100_000, 0, perSecond("p", 50_000, 100_000, perSecond("a", 10_000, 100_000), perSecond("b", 20_000, 100_000)), perSecond("c", 30_000, 100_000)), d)
		leaves := [][]string{{"p", "a"}, {"p", "b"}, {"c"}}
		free := make([]*Item, 0, 100)
		now := Time(0)
		for range 30 {
			for _, l := range leaves {
				put(t, s, now, 1, l...)
			}
		}
		k := 0
		step := func() {
			i, next, ok := s.Dequeue(now)
			if !ok {
				now = next
				return
			}
			free = append(free[:0], i)
			k++
			_ = s.Enqueue(now, i, leaves[k%3]...)
		}
		for range 20_000 {
			step()
		}
		require.Less(t, testing.AllocsPerRun(5000, step), 0.01, name)
	}
}

func BenchmarkScheduler(b *testing.B) {
	for name, d := range dialects {
		for _, n := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				root := perSecond("", 1_000_000_000, 0)
				tenants := n / 50
				for i := range tenants {
					t := perSecond(fmt.Sprint("t", i), int64(1_000_000_000/tenants), 1_000_000_000)
					for j := range 50 {
						t.Children = append(t.Children, perSecond(fmt.Sprint("c", j), int64(1_000_000_000/tenants/50), 1_000_000_000))
					}
					root.Children = append(root.Children, t)
				}
				s := mustScheduler(b, root, d)
				var paths [][]string
				for i := range tenants {
					for j := range 50 {
						paths = append(paths, []string{fmt.Sprint("t", i), fmt.Sprint("c", j)})
					}
				}
				for _, p := range paths {
					put(b, s, 0, 1, p...)
					put(b, s, 0, 1, p...)
				}
				now := Time(0)
				b.ReportAllocs()
				for b.Loop() {
					i, next, ok := s.Dequeue(now)
					for !ok {
						now = next
						i, next, ok = s.Dequeue(now)
					}
					if err := s.push(now, i, i.leaf); err != nil { // back at the end of its queue
						b.Fatal(err)
					}
				}
			})
		}
	}
}
