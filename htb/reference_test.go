package htb

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// ref is the tree as the package comment and docs/fair-borrowing.md define it, with no
// care for speed: token counts as exact fractions, the reserve added up from the
// children every time, the clocks worked out from all loans there were.
type ref struct {
	spec       Spec
	parent     *ref
	children   []*ref
	rate, ceil *refBucket
	reserve    *refBucket // oversubscribed
	fair       refShare
}

type refBucket struct {
	perNano, size, tokens *big.Rat
	at                    Time
}

func newRefBucket(r algo.Rate, burst int64) *refBucket {
	return &refBucket{r.Fraction(), big.NewRat(burst, 1), big.NewRat(burst, 1), 0}
}

func (b *refBucket) fillTo(now Time) *big.Rat {
	b.tokens = new(big.Rat).Add(b.tokens, new(big.Rat).Mul(b.perNano, big.NewRat(int64(now-b.at), 1)))
	b.at = now
	if b.tokens.Cmp(b.size) > 0 {
		b.tokens = b.size
	}
	return b.tokens
}

func (b *refBucket) take(now Time, c *big.Rat) { b.tokens = new(big.Rat).Sub(b.fillTo(now), c) }

func newRef(s Spec, parent *ref) *ref {
	x := &ref{spec: s, parent: parent, rate: newRefBucket(s.Rate, s.Burst), ceil: newRefBucket(s.Ceil, s.CBurst)}
	leaf := int64(1)
	for _, c := range s.Children {
		x.children = append(x.children, newRef(c, x))
	}
	if s.Oversubscribed {
		for _, p := range flatten(s) {
			if len(p.Children) == 0 {
				leaf = max(leaf, p.Burst)
			}
		}
		x.reserve = newRefBucket(s.Rate, s.Burst-max(leaf, s.Rate.Over(time.Second/10)))
	}
	x.share()
	return x
}

func flatten(s Spec) []Spec {
	out := []Spec{s}
	for _, c := range s.Children {
		out = append(out, flatten(c)...)
	}
	return out
}

func (x *ref) find(names []string) *ref {
	for _, n := range names {
		for _, c := range x.children {
			if c.spec.Name == n {
				x = c
				break
			}
		}
	}
	return x
}

// keeps is the reserve: what the children hold.
func (x *ref) keeps(now Time) *big.Rat {
	sum := new(big.Rat)
	if x.reserve != nil {
		sum.Set(x.reserve.fillTo(now))
	} else {
		for _, c := range x.children {
			sum.Add(sum, c.rate.fillTo(now))
		}
	}
	if sum.Sign() < 0 {
		sum.SetInt64(0)
	}
	return sum
}

// ask decides by trying every lender, the nearest first.
func (x *ref) ask(now Time, cost int64) (lender int, ok bool) {
	return x.asking(now, cost, true)
}

func (x *ref) asking(now Time, cost int64, fair bool) (lender int, ok bool) {
	c := big.NewRat(cost, 1)
	var path []*ref
	for y := x; y != nil; y = y.parent {
		path = append(path, y)
	}
	places := x.places(now)
	holds := func(b *refBucket, need *big.Rat) bool { return b.fillTo(now).Cmp(need) >= 0 }
	for k := range path {
		ok := true
		for j, y := range path {
			rate, ceil := c, c
			if j >= 1 && j <= k {
				at := uint64(0)
				if fair {
					at = places[j]
				}
				rate = new(big.Rat).Add(y.leaving(now, c, y.rate, at, x), y.keeps(now))
				ceil = new(big.Rat).Add(y.leaving(now, c, y.ceil, at, x), y.keeps(now))
			}
			ok = ok && holds(y.ceil, ceil)
			if j >= k {
				ok = ok && holds(y.rate, rate)
			}
		}
		if ok {
			return k, true
		}
	}
	return 0, false
}

func (x *ref) pay(now Time, lender int, cost int64) {
	x.lend(now, lender, cost) // a loan moves marks, and being served ends a claim
	c := big.NewRat(cost, 1)
	for j := 0; x != nil; j, x = j+1, x.parent {
		x.ceil.take(now, c)
		if j >= lender {
			x.rate.take(now, c)
			if x.parent != nil && x.parent.reserve != nil {
				x.parent.reserve.take(now, c)
			}
		}
	}
}

// The tree and the reference say the same of every call, and of the time to retry:
// then it passes, a nanosecond sooner it does not.
func TestTreeDecidesAsTheReference(t *testing.T) { rapid.Check(t, decidesAsTheReference) }

func FuzzTreeDecidesAsTheReference(f *testing.F) { f.Fuzz(rapid.MakeFuzz(decidesAsTheReference)) }

func decidesAsTheReference(t *rapid.T) {
	spec := genTree(t, treeKind{})
	if rapid.Bool().Draw(t, "oversubscribe") {
		oversubscribe(&spec)
	}
	tree := mustTree(t, spec)
	spec = spec.Resolved()
	model := newRef(spec, nil)
	model.setTicks(big.NewInt(1))
	leaves := leavesOf(spec)
	now := Time(0)
	calls := genCalls(t, len(leaves), 300)
	if rapid.Bool().Draw(t, "busy") {
		calls = genBusy(t, spec, len(leaves), 500)
	}
	for i, c := range calls {
		now = now.Add(c.after)
		d, err := tree.Allow(now, c.cost, leaves[c.leaf]...)
		if err != nil {
			require.ErrorIs(t, err, ErrCost)
			continue
		}
		leaf := model.find(leaves[c.leaf])
		lender, ok := leaf.ask(now, c.cost)
		require.Equal(t, ok, d.Allowed, "call %d at %d: %+v", i, now, c)
		if ok {
			require.Equal(t, lender, d.Up, "lender of call %d at %d: %+v", i, now, c)
			leaf.pay(now, lender, c.cost)
			continue
		}
		_, unshared := leaf.asking(now, c.cost, false)
		require.Equal(t, unshared, d.Reason == FairShare, "call %d at %d: %v", i, now, d.Reason)
		leaf.stake(now, c.cost, d.RetryAfter)
		if d.RetryAfter == Never {
			continue
		}
		require.Positive(t, d.RetryAfter)
		at := now.Add(d.RetryAfter)
		require.False(t, leaf.after(at-1, c.cost), "call %d: passes sooner than told, %v", i, d.RetryAfter)
		require.True(t, leaf.after(at, c.cost), "call %d: does not pass when told, %v", i, d.RetryAfter)
	}
}

// after asks at a later time and leaves no trace.
func (x *ref) after(at Time, cost int64) bool {
	root := x
	for root.parent != nil {
		root = root.parent
	}
	saved := map[*refBucket]refBucket{}
	var walk func(x *ref)
	walk = func(x *ref) {
		for _, b := range []*refBucket{x.rate, x.ceil, x.reserve} {
			if b != nil {
				saved[b] = *b
			}
		}
		for _, c := range x.children {
			walk(c)
		}
	}
	walk(root)
	_, ok := x.ask(at, cost)
	for b, was := range saved {
		*b = was
	}
	return ok
}

// oversubscribe marks the first inner class below the root and gives its children
// all of its rate each.
func oversubscribe(s *Spec) {
	for i := range s.Children {
		c := &s.Children[i]
		if len(c.Children) == 0 {
			continue
		}
		c.Oversubscribed = true
		for j := range c.Children {
			if len(c.Children[j].Children) == 0 {
				c.Children[j].Rate = c.Rate
				c.Children[j].Ceil = c.Ceil
			}
		}
		return
	}
}
