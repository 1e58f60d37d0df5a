package htb

import "sync/atomic"

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
