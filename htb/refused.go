package htb

import (
	"math"
	"sync/atomic"
	"time"
)

// refusal is what a leaf was refused for last, for requests of the same cost that come
// while it still holds: they are answered without the tree's lock. It holds until a time,
// where it is a bucket's emptiness that time alone fills, and while the tree's version is
// the same, which every change makes another. Refusals change nothing, but counters: those
// wait here until the leaf is decided on again or its counters are read.
type refusal struct {
	edits   atomic.Uint64 // odd while the others change
	version atomic.Uint64
	cost    atomic.Int64
	from    atomic.Int64
	until   atomic.Int64
	passes  atomic.Int64  // when the request does; Never's value: never
	verdict atomic.Uint64 // by, and why below

	uncounted atomic.Int64
}

// mostRemembered is the largest cost of which refusals are remembered: the sum of them
// that are not counted yet is far from its range's end.
const mostRemembered = 1 << 20

// remembers reports whether the leaf was ever refused for what is remembered.
func (l *Leaf) remembers() bool {
	x := l.class.Load()
	return x != nil && x.refused.Load() != nil
}

// refused returns the leaf, who refuses and why, and when the request passes, if it is
// refused for what is remembered; else nil.
func (l *Leaf) refused(now Time, cost int64) (x *class, verdict uint64, passes int64) {
	if x = l.class.Load(); x == nil { // meanwhile
		return nil, 0, 0
	}
	r := x.refused.Load()
	if r == nil {
		return nil, 0, 0
	}
	edits := r.edits.Load()
	verdict, passes = r.verdict.Load(), r.passes.Load()
	if int64(now) >= r.until.Load() || int64(now) < r.from.Load() || r.cost.Load() != cost ||
		r.version.Load() != l.tree.version.Load() || edits&1 != 0 || r.edits.Load() != edits {
		return nil, 0, 0
	}
	r.uncounted.Add(cost)
	return x, verdict, passes
}

// refusedAt fills in the Decision of such a request.
func (d *Decision) refusedAt(l *Leaf, now Time, x *class, verdict uint64, passes int64) {
	d.Reason, d.Up, d.RetryAfter = Reason(verdict), int(verdict>>8), Never
	if passes < math.MaxInt64 {
		d.RetryAfter = Time(passes).Sub(now)
	}
	d.tree, d.leaf, d.at = l.tree, x, now
}

// remember keeps a refusal of x for as long as it is certain to be the same: the bucket
// at fault is the only one on the way that matters, and nobody's place in line changes
// before, nor does a claim end. wait is how long after now the request passes.
func (t *Tree) remember(x *class, now Time, need Ticks, cost int64, v verdict, wait time.Duration) {
	if !x.static || cost < 1 || cost > mostRemembered || v.why != AtCeil && v.why != NothingToBorrow {
		return
	}
	y, until := x, Time(math.MaxInt64)
	for j := 0; j < v.by; j++ {
		if j > 0 && (y.in.claim.by != nil || y.lendCeil.Less(y.ceil.Owed(y.ceilTAT, now).Add(need))) {
			return
		}
		y = y.parent
		until = min(until, y.window.begins(y.window.at(now)+1))
	}
	if y != x && y.in.claim.by != nil && y.in.claim.by != x { // which x may make one after
		until = min(until, y.in.claim.until)
	}
	if x.staked && v.by > 0 {
		for _, at := range [2]Time{x.stakedUntil, x.stakeForgotten()} {
			if at > now {
				until = min(until, at)
			}
		}
	}
	b, tat := y.ceil, y.ceilTAT
	if v.why == NothingToBorrow {
		b, tat = y.rate, y.rateTAT
		if y.parent != nil || b.Has(tat, now, need) {
			return
		}
	}
	if at, ok := b.When(tat, need); ok {
		until = min(until, at)
	}
	until = min(until, t.due) // when leased units come back
	r := x.refused.Load()
	if r == nil {
		r = &refusal{}
		x.refused.Store(r)
	}
	t.watched = true
	r.edits.Add(1)
	r.version.Store(t.version.Load())
	r.cost.Store(cost)
	r.from.Store(int64(now))
	r.until.Store(int64(until))
	r.passes.Store(math.MaxInt64)
	if wait < Never {
		r.passes.Store(int64(now.Add(wait)))
	}
	r.verdict.Store(uint64(v.by)<<8 | uint64(v.why))
	r.edits.Add(1)
}

// waited is when a request passes that was refused, as long as the tree's version is the
// same: for a leaf in the same state.
type waited struct {
	version          uint64
	leaf             *class // or its parent, of one in a table
	cost             int64
	rate, ceil, mark Ticks
	passes           Time // MaxInt64: never
}

const waitsKept = 256

// wait is retryAfter, for most requests from memory: where many are refused, few change
// the tree, and leaves that have not been served for long are all the same.
func (t *Tree) wait(x *class, now Time, need Ticks, cost int64) time.Duration {
	key := waited{t.version.Load(), x, cost, x.rateTAT, x.ceilTAT, x.mark, 0}
	if x.slot > 0 {
		key.leaf = x.parent
	}
	if !x.simple || x.slot > 0 && x.staked {
		return x.retryAfter(now, need)
	}
	if t.waits == nil {
		t.waits = new([waitsKept]waited)
	}
	w := &t.waits[(x.rateTAT.Hash()^x.ceilTAT.Hash()^x.mark.Hash()^uint64(cost))%waitsKept]
	key.passes = w.passes
	switch {
	case *w == key && key.passes == math.MaxInt64:
		return Never
	case *w == key && now <= key.passes:
		return key.passes.Sub(now)
	}
	wait := x.retryAfter(now, need)
	if key.passes = math.MaxInt64; wait < Never {
		key.passes = now.Add(wait)
	}
	t.watched, *w = true, key
	return wait
}

// changed makes what is remembered of refusals void.
func (t *Tree) changed() {
	if t.watched {
		t.watched = false
		t.version.Add(1)
	}
}

// lock is mu.Lock for what may change more than a decision does.
func (t *Tree) lock() {
	t.mu.Lock()
	t.changed()
}

// countRefused counts the refusals of x that were answered from memory.
func (x *class) countRefused() {
	r := x.refused.Load()
	if r == nil {
		return
	}
	switch cost := r.uncounted.Swap(0); {
	case cost == 0:
	case x.dropped || x.in != nil:
		x.countLate(verdict{why: AtCeil}, cost)
	default:
		x.count(verdict{why: AtCeil}, cost)
	}
}

// countAllRefused is countRefused for x and all below it of which refusals are remembered.
func (x *class) countAllRefused() {
	x.countRefused()
	if x.in != nil {
		for _, c := range x.in.named {
			c.countAllRefused()
		}
	}
}
