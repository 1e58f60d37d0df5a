package htb

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
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
	if x != nil && cost >= 0 {
		err = t.weigh(d, x, now, cost)
	} else if x, _, err = t.seek(now, names, cost); err == nil {
		err = t.take(d, x, now, cost)
	} else {
		return err
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

// Leaf is a handle on one leaf, for deciding without a lookup. It may be shared
// between goroutines. The leaf of a template may be dropped meanwhile, or the
// tree replaced: the handle finds the one that lives.
type Leaf struct {
	tree  *Tree
	names []string
	class atomic.Pointer[class] // changed under tree.mu; nil before the first use
	slot  int                   // above 0: of the leaf in the table of that class, if it still is the leaf's
	sh    *shaping              // of that class, in a tree that shapes
}

// Path returns the leaf's path.
func (l *Leaf) Path() string { return Path(l.names...) }

// Allow decides on a request of cost units at now. The errors are those of
// [Tree.Allow]; of a handle, only a cost that can never pass, or a leaf that a
// replacement of the tree has taken away.
func (l *Leaf) Allow(now Time, cost int64) (d Decision, err error) {
	if l.remembers() {
		if x, verdict, passes := l.refused(now, cost); x != nil {
			d.refusedAt(l, now, x, verdict, passes)
			return d, nil
		}
	}
	t := l.tree
	t.mu.Lock()
	now = t.advance(now)
	x := l.own()
	if x != nil {
		if lender, ok := x.quick(now, cost); ok {
			t.changed()
			t.mu.Unlock() // nothing here panics
			d.Allowed, d.Up, d.tree, d.leaf, d.at = true, lender, t, x, now
			return d, nil
		}
	}
	err = l.allow(&d, x, now, cost)
	return d, err
}

// Take is [Leaf.Allow] for callers who want to know no more than whether the request
// passes, which is sooner told. It is false, too, where Allow returns an error.
func (l *Leaf) Take(now Time, cost int64) bool {
	if l.remembers() {
		if x, _, _ := l.refused(now, cost); x != nil {
			return false
		}
	}
	t := l.tree
	t.mu.Lock()
	now = t.advance(now)
	x := l.own()
	if x != nil {
		if _, ok := x.quick(now, cost); ok {
			t.changed()
			t.mu.Unlock() // nothing here panics
			return true
		}
	}
	var d Decision
	err := l.allow(&d, x, now, cost)
	return err == nil && d.Allowed
}

// own returns the leaf if it is a class of its own, and alive.
func (l *Leaf) own() *class {
	if x := l.class.Load(); x != nil && x.in == nil && !x.dropped && x.slot == 0 && l.slot == 0 {
		return x
	}
	return nil
}

// allow is Allow with the lock held, which it gives back, of x if that is not nil and no
// quick decision.
func (l *Leaf) allow(d *Decision, x *class, now Time, cost int64) (err error) {
	defer l.tree.mu.Unlock()
	if x != nil && cost >= 0 {
		return l.tree.weigh(d, x, now, cost)
	}
	if x, err = l.seek(now, cost); err != nil {
		return err
	}
	err = l.tree.take(d, x, now, cost)
	x.park(now)
	return err
}

func (l *Leaf) live(now Time, cost int64) (*class, error) {
	x, err := l.seek(now, cost)
	if err == nil {
		x.fetch()
	}
	return x, err
}

// seek is live for who may do without what a leaf's record says.
func (l *Leaf) seek(now Time, cost int64) (*class, error) {
	was := l.class.Load()
	if x := was; x != nil && cost >= 0 && !x.dropped {
		if x.in == nil && l.slot == 0 {
			return x, nil
		}
		if c, ok := x.at(l.slot, l.names); ok {
			return c, nil
		}
	}
	if was != nil && was.dropped {
		was.countRefused()
	}
	x, shared, err := l.tree.seek(now, l.names, cost)
	c := x
	l.slot = 0
	switch {
	case shared: // until there is room for its own
		c = nil
	case x != nil && x.slot > 0:
		c, l.slot = x.parent, x.slot
	}
	if c != was {
		l.class.Store(c)
	}
	return x, err
}

// Decision is the answer to one request.
type Decision struct {
	// Allowed: the request passes, and was charged.
	Allowed bool
	// Outage: a store outside of the tree should have been asked, and was not there.
	Outage bool
	// Reason says why it was refused.
	Reason Reason
	// Up is the number of levels above the leaf of the class that lent (0: the
	// leaf used its own tokens), or of the one that refused.
	Up int
	// RetryAfter is how long after a refusal the request would pass if nothing
	// else came; [Never] if waiting alone does not help.
	RetryAfter time.Duration

	tree *Tree
	leaf *class
	name string // if not empty: of the child of leaf that is the leaf
	at   Time
}

func (d *Decision) of(t *Tree, x *class, now Time) {
	if d.tree, d.leaf, d.at = t, x, now; x.slot > 0 {
		d.leaf, d.name = x.parent, x.name
	}
}

// Lender returns the path of the class whose rate paid: the leaf itself, or one
// above that lent. It is empty for a refusal.
func (d Decision) Lender() string {
	if !d.Allowed {
		return ""
	}
	return d.class()
}

// RefusedBy returns the path of the class that refused; Reason says why. It is
// empty for an admission.
func (d Decision) RefusedBy() string {
	if d.Allowed || d.Reason == 0 {
		return ""
	}
	return d.class()
}

func (d Decision) class() string {
	d.tree.mu.Lock()
	defer d.tree.mu.Unlock()
	x, up := d.leaf, d.Up
	if d.name != "" {
		if up--; up < 0 {
			return x.childPath(d.name)
		}
	}
	for range up {
		x = x.parent
	}
	return x.path()
}

// now returns the leaf as it is at the time of the decision, or of the latest after it;
// false if it is no more.
func (d Decision) now() (*class, Time, bool) {
	now, x := d.tree.advance(d.at), d.leaf
	if d.name == "" {
		return x, now, true
	}
	if x.dropped || x.in == nil {
		return nil, now, false
	}
	x, ok := x.child(d.name)
	return x, now, ok
}

// Remaining returns the most units that would pass in one request now: at the
// time of the decision, or of the latest after it. Others may take them first. It is
// 0 if the leaf is no more: dropped, and none made of its name since, or not in the tree
// that replaced this one.
func (d Decision) Remaining() int64 {
	if d.tree == nil {
		return 0
	}
	d.tree.mu.Lock()
	defer d.tree.mu.Unlock()
	x, now, ok := d.now()
	if !ok || x.dropped || x.in != nil {
		return 0
	}
	return x.remaining(now)
}

// Reset returns how long from then on the leaf's own buckets need to be full
// again, if nothing more comes.
func (d Decision) Reset() time.Duration {
	if d.tree == nil {
		return 0
	}
	d.tree.mu.Lock()
	defer d.tree.mu.Unlock()
	x, now, ok := d.now()
	if !ok {
		return 0
	}
	return max(0, x.bucketsFullAt().Sub(now))
}
