package htb

import "fmt"

// Hold is an admitted request whose true cost is told later, with Settle: the
// tokens of a model's answer, the bytes of a response. Charge the most it could
// cost, and settle to what it did: then nothing is ever overdrawn. Fair shares reckon with
// that maximum until it is settled: let what a class can lend hold several. A class with an
// open hold is not dropped, so every Hold must be settled, to 0 if nothing was used.
type Hold struct {
	tree   *Tree
	leaf   *class
	lender int
	cost   int64 // what was charged
	weight int64 // how many times that the leaf's own buckets were
	done   bool  // guarded by tree.mu
}

// Hold is Allow for a request that will be settled: the Hold is nil unless the
// Decision is to allow it.
func (t *Tree) Hold(now Time, most int64, names ...string) (*Hold, Decision, error) {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	x, err := t.find(now, names, most)
	if err != nil {
		return nil, Decision{}, err
	}
	h, d, err := t.hold(x, now, most)
	x.park(now)
	return h, d, err
}

// Hold is [Tree.Hold] without the lookup.
func (l *Leaf) Hold(now Time, most int64) (*Hold, Decision, error) {
	l.tree.lock()
	defer l.tree.mu.Unlock()
	now = l.tree.advance(now)
	x, err := l.live(now, most)
	if err != nil {
		return nil, Decision{}, err
	}
	h, d, err := l.tree.hold(x, now, most)
	x.park(now)
	return h, d, err
}

func (t *Tree) hold(x *class, now Time, most int64) (*Hold, Decision, error) {
	var d Decision
	err := t.take(&d, x, now, most)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	x.open++
	return &Hold{tree: t, leaf: x, lender: d.Up, cost: most, weight: 1}, d, nil
}

// Settle corrects the charge to what the request cost, on exactly the classes that
// paid, counted now. What is given back never lifts a bucket above full. What is
// charged on top is charged whether or not there are tokens for it: it may leave a
// debt, and while a class owes, guarantees below it are best effort. The second
// call on a Hold returns [ErrSettled], a negative cost an error that wraps
// [ErrCost]; neither changes anything.
func (h *Hold) Settle(now Time, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("htb: settling to %d: a cost is not negative: %w", cost, ErrCost)
	}
	h.tree.lock()
	defer h.tree.mu.Unlock()
	if h.done {
		return ErrSettled
	}
	h.done = true
	now = h.tree.advance(now)
	h.leaf.open--
	if cost < h.cost {
		h.leaf.refund(now, h.lender, h.cost-cost)
	} else {
		h.leaf.charge(now, h.lender, cost-h.cost)
	}
	h.weigh(now, cost-h.cost)
	h.leaf.reborrow(h.lender, cost-h.cost)
	h.leaf.countSettled(h.lender, cost-h.cost)
	h.leaf.park(now)
	return nil
}

// weigh corrects the leaf's own buckets, which were charged weight times the cost, where
// they are corrected by more: once is done already.
func (h *Hold) weigh(now Time, more int64) {
	x, n := h.leaf, h.weight-1
	if n == 0 || more == 0 || x.dropped || x.in != nil {
		return
	}
	units := max(more, -more)
	if limit := int64(1) << 40; units > limit { // so that no product is too large
		units = limit
	}
	need := x.ticks.Cost(units * max(n, -n))
	up := (more > 0) == (n > 0)
	for i, b := range x.also {
		if up {
			x.alsoTAT[i] = b.Charge(x.alsoTAT[i], now, need)
		} else {
			x.alsoTAT[i] = b.Refund(x.alsoTAT[i], need)
		}
	}
	for i := range 2 {
		switch {
		case i == 0 && h.lender > 0:
		case up:
			x.elsewhere(now, i, need)
		default:
			x.giveBack(now, i, need)
		}
	}
}
