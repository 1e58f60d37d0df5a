package htb

import "time"

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

// of says of which leaf, and when, the decision is.
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
