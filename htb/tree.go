package htb

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/go-sluice/sluice/internal/prefetch"
)

// Tree is a tree of classes that share one capacity. It polices: every call is
// answered at once, with a yes or a no. Make one with [New], or from a file with
// config.Load; the zero Tree is not usable. A Tree may be used by any number of
// goroutines; its decisions are those of some order of the calls.
//
// Most callers want [Tree.Allow], or [Tree.Leaf] once and [Leaf.Allow] for every
// request.
type Tree struct {
	mu      lock
	watched bool     // some refusal is remembered of this version
	last    Time     // the latest seen
	due     Time     // no lease ends before
	_       [24]byte // what follows changes seldom, and is in another line of the cache

	version atomic.Uint64 // of the state; moves on only from one that is watched
	root    *class
	hub     *hub
	spec    Spec
	waits   *[waitsKept]waited
	leased  leaseHeap // with something in hand

	_ [16]byte // to whole lines
}

// New returns a tree of which root is the root, every bucket full. A Spec with
// mistakes gives the error [Mistakes], all of them at once.
func New(root Spec) (*Tree, error) {
	p, m := compile(root, toPolice)
	if err := m.fatal(); err != nil {
		return nil, err
	}
	t := &Tree{last: math.MinInt64, due: math.MaxInt64, hub: &hub{ttl: root.SyncTTL()}, spec: root.clone()}
	p.join(t.hub)
	t.root = newClass(p, nil, "")
	return t, nil
}

// fatal returns the mistakes that are not warnings, as an error.
func (m Mistakes) fatal() error {
	m = slices.DeleteFunc(slices.Clone(m), func(m Mistake) bool { return m.Warning })
	if len(m) == 0 {
		return nil
	}
	return m
}

// Spec returns what the tree was made from.
func (t *Tree) Spec() Spec {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spec.clone()
}

// advance returns now, or the latest time seen if that is later.
func (t *Tree) advance(now Time) Time {
	t.last = max(t.last, now)
	if t.last >= t.due {
		t.endLeases(t.last)
	}
	return t.last
}

// Leaf returns a handle on the leaf that names lead to, for callers that decide on
// it often. The names are checked now; a leaf under a template is made when it is
// first used. No class of that path is an error that wraps [ErrUnknown],
// [ErrNotLeaf] or [ErrName].
func (t *Tree) Leaf(names ...string) (*Leaf, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.root.leads(names); err != nil {
		return nil, err
	}
	return &Leaf{tree: t, names: slices.Clone(names)}, nil
}

// leads says why names do not lead from the root's plan to a leaf's.
func (p *plan) leads(names []string) error {
	for i, name := range names {
		if err := checkName(name); err != nil {
			return fmt.Errorf("htb: %w", err)
		}
		q, ok := p.named[name]
		switch {
		case ok:
			p = q
		case p.template != nil:
			p = p.template
		default:
			return fmt.Errorf("htb: class %q: %w", Path(names[:i+1]...), ErrUnknown)
		}
	}
	if p.inner() {
		return notLeaf(Path(names...))
	}
	return nil
}

func notLeaf(path string) error {
	return fmt.Errorf("htb: class %q has children, name one of them: %w", path, ErrNotLeaf)
}

// find returns the leaf that names lead to, making it if it is to be made.
func (t *Tree) find(now Time, names []string, cost int64) (*class, error) {
	x, _, err := t.seek(now, names, cost)
	if err == nil {
		x.fetch()
	}
	return x, err
}

// seek is find for who may do without what a leaf's record says; shared says that it is
// one that names share, or below such a one. Only a name that is not in the tree needs
// checking, and a negative cost makes nothing.
func (t *Tree) seek(now Time, names []string, cost int64) (x *class, shared bool, err error) {
	if cost < 0 {
		return nil, false, fmt.Errorf("htb: class %q: cost %d is negative: %w", Path(names...), cost, ErrCost)
	}
	x = t.root
	for i, name := range names {
		c, ok := x.lookup(now, name)
		if !ok {
			if err := t.root.leads(names); err != nil {
				return nil, false, err
			}
			c = x.make(now, names[i])
			shared = shared || c == x.in.dyn.overflow
		}
		x = c
	}
	if x.in != nil {
		return nil, false, notLeaf(x.path())
	}
	return x, shared, nil
}

// Allow decides on a request of cost units, at now, of the leaf that names lead
// to: "free", "alice" for free/alice. Names are data: a client called "a/b" is
// one name. An error is neither an admission nor a refusal: no such class
// ([ErrUnknown], [ErrNotLeaf]), an empty or overlong name ([ErrName]), or a cost
// that no state of the buckets could admit ([ErrCost]). Cost 0 takes nothing and
// only asks.
func (t *Tree) Allow(now Time, cost int64, names ...string) (d Decision, err error) {
	if n := len(names); n > 0 { // it may take longer than the lock to be at hand
		prefetch.Line(unsafe.Pointer(unsafe.StringData(names[n-1])))
	}
	t.mu.Lock()
	now = t.advance(now)
	x := t.known(now, names)
	if x != nil {
		if lender, ok := x.quick(now, cost); ok {
			d.Allowed, d.Up = true, lender
			d.of(t, x, now)
			t.changed()
			x.park(now)
			t.mu.Unlock() // nothing here panics
			return d, nil
		}
	}
	err = t.allow(&d, x, now, cost, names)
	return d, err
}

// known is seek for a leaf that is there.
func (t *Tree) known(now Time, names []string) *class {
	x, ok := t.root, true
	for _, name := range names {
		if x, ok = x.lookup(now, name); !ok {
			return nil
		}
	}
	if x.in != nil {
		return nil
	}
	return x
}

// allow is Allow with the lock held, which it gives back, of x if that is known and no
// quick decision.
func (t *Tree) allow(d *Decision, x *class, now Time, cost int64, names []string) (err error) {
	defer t.mu.Unlock()
	if x == nil || cost < 0 {
		if x, _, err = t.seek(now, names, cost); err != nil {
			return err
		}
		err = t.take(d, x, now, cost)
	} else {
		err = t.weigh(d, x, now, cost)
	}
	x.park(now)
	return err
}

// take decides and books.
func (t *Tree) take(d *Decision, x *class, now Time, cost int64) error {
	if lender, ok := x.quick(now, cost); ok {
		d.of(t, x, now)
		d.Allowed, d.Up = true, lender
		t.changed()
		return nil
	}
	return t.weigh(d, x, now, cost)
}

// weigh is take for requests that are not quick.
func (t *Tree) weigh(d *Decision, x *class, now Time, cost int64) error {
	x.fetch()
	d.of(t, x, now)
	if cost > x.maxCost {
		*d = Decision{}
		x.countRefusal(cost)
		return x.unaffordable(cost)
	}
	need := x.ticks.Cost(cost)
	v := x.decide(now, need)
	x.count(v, cost)
	x.countRefused()
	d.Allowed, d.Reason, d.Up, d.Outage = v.why == 0, v.why, v.by, v.why == NoStore
	if d.Allowed {
		x.charge(now, v.by, cost)
		x.borrow(now, v.by, cost)
		if x.staked && cost > 0 {
			x.unstake()
		}
		t.changed()
	} else {
		d.RetryAfter = t.wait(x, now, need, cost)
		if x.stake(now, need, d.RetryAfter) {
			t.changed()
		}
		t.remember(x, now, need, cost, v, d.RetryAfter)
		d.RetryAfter = x.untilHeard(now, v, need, d.RetryAfter)
	}
	return nil
}
