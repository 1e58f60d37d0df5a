package htb

import (
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Pending is the first half of a decision on a leaf whose buckets are kept outside of
// the tree (Spec.Remote): the classes above it have let the request pass, and hold what
// it costs until the second half. Call exactly one of Answer, Alone, Pass, Refuse and
// Cancel; further calls do nothing. It is for one goroutine at a time.
type Pending struct {
	tree   *Tree
	leaf   *class
	plan   *plan // of the leaf, when it was asked
	cost   int64
	keep   bool // for a Hold
	own    bool // with tokens of the leaf it passes
	lender int  // else this one would lend, if above 0
	held   *Hold
	done   bool
}

// Answer is what the store outside says of a request.
type Answer struct {
	Allowed    bool
	Borrowed   bool          // on the ceil alone
	Reason     Reason        // of a refusal: AtCeil, AlsoLimit or, by the rate, NothingToBorrow
	RetryAfter time.Duration // of a refusal by AlsoLimit; of others the tree knows
	// Owed is how long until the rate and the ceil bucket are full.
	Owed [2]time.Duration
}

// Ask is [Tree.Allow] for a leaf that is Remote: the Pending is what to ask the store
// outside. It is nil if the request is refused without, or the leaf is not Remote: then
// the Decision is all.
func (t *Tree) Ask(now Time, cost int64, names ...string) (*Pending, Decision, error) {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	x, err := t.find(now, names, cost)
	if err != nil {
		return nil, Decision{}, err
	}
	p, d, err := t.ask(x, now, cost)
	x.park(now)
	return p, d, err
}

// Ask is [Tree.Ask] without the lookup.
func (l *Leaf) Ask(now Time, cost int64) (*Pending, Decision, error) {
	l.tree.lock()
	defer l.tree.mu.Unlock()
	now = l.tree.advance(now)
	x, err := l.live(now, cost)
	if err != nil {
		return nil, Decision{}, err
	}
	p, d, err := l.tree.ask(x, now, cost)
	x.park(now)
	return p, d, err
}

// AskHold is [Tree.Hold] for a leaf that is Remote: if the request is admitted in the
// end, [Pending.Hold] returns the Hold. Of other leaves it returns the Hold itself.
func (t *Tree) AskHold(now Time, most int64, names ...string) (*Pending, *Hold, Decision, error) {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	x, err := t.find(now, names, most)
	if err != nil {
		return nil, nil, Decision{}, err
	}
	if !x.asks(most) {
		h, d, err := t.hold(x, now, most)
		x.park(now)
		return nil, h, d, err
	}
	p, d, err := t.ask(x, now, most)
	if p != nil {
		p.keep = true
	}
	return p, nil, d, err
}

// asks reports whether the store is asked for a request of cost.
func (x *class) asks(cost int64) bool { return x.spec.Remote && cost > 0 && cost <= x.maxCost }

func (t *Tree) ask(x *class, now Time, cost int64) (*Pending, Decision, error) {
	if !x.asks(cost) {
		var d Decision
		err := t.take(&d, x, now, cost)
		return nil, d, err
	}
	own, lender, v := x.above(now, x.ticks.Cost(cost))
	if v.why != 0 {
		x.count(v, cost)
		need := x.ticks.Cost(cost)
		wait := x.retryAfter(now, need)
		x.stake(now, need, wait)
		return nil, Decision{Reason: v.why, Up: v.by, RetryAfter: x.untilHeard(now, v, need, wait), Outage: v.why == NoStore, tree: t, leaf: x, at: now}, nil
	}
	p := &Pending{tree: t, leaf: x, plan: x.plan, cost: cost, own: own, lender: lender}
	p.charge(now, p.from())
	x.open++
	return p, Decision{}, nil
}

// above walks from the parent of the leaf x to the root: whether a request passes there
// with tokens that x has itself, and which class would lend, or who refuses both.
func (x *class) above(now Time, need Ticks) (own bool, lender int, v verdict) {
	if j, ok := x.closed(); ok {
		return false, 0, verdict{j, NoStore}
	}
	nearest, top := 1, 0
	for j, y := 1, x.parent; y != nil; j, y = j+1, y.parent {
		if !y.underCeil(now, need) {
			if l := x.loan(now, need, nearest, j-1, false); l.blocked > 0 {
				return false, 0, verdict{l.blocked, NothingToBorrow}
			}
			return false, 0, verdict{j, AtCeil}
		}
		if top = j; !y.hasRate(now, need) {
			nearest = j + 1
		}
	}
	l := x.loan(now, need, nearest, top, true)
	if own = nearest == 1; own || l.lender > 0 {
		return own, l.lender, verdict{}
	}
	if at := l.shared; at > 0 {
		if l = x.loan(now, need, nearest, top, false); l.lender > 0 {
			return false, 0, verdict{at, FairShare}
		}
	}
	if l.blocked > 0 {
		return false, 0, verdict{l.blocked, NothingToBorrow}
	}
	return false, 0, verdict{top, NothingToBorrow}
}

// from is the first level above the leaf whose rate holds the cost.
func (p *Pending) from() int {
	if p.own {
		return 1
	}
	return p.lender
}

// Path returns the leaf's path. Names made from a template are data.
func (p *Pending) Path() string {
	p.tree.lock()
	defer p.tree.mu.Unlock()
	return p.leaf.path()
}

// Limits returns those of the leaf's buckets, as they were when it was asked.
func (p *Pending) Limits() (rate, ceil Limit, also []Limit) {
	s := &p.plan.spec
	return Limit{s.Rate, s.Burst}, Limit{s.Ceil, s.CBurst}, s.Also
}

// Cost returns what is held.
func (p *Pending) Cost() int64 { return p.cost }

// Ways says how the classes above let the request pass: if the leaf has the tokens
// itself, if it borrows them, or both.
func (p *Pending) Ways() (own, borrow bool) { return p.own, p.lender > 0 }

// Attached returns what was attached to the leaf, nil if nothing was.
func (p *Pending) Attached() any {
	p.tree.lock()
	defer p.tree.mu.Unlock()
	if p.leaf.plan != p.plan {
		return nil
	}
	return p.leaf.attached
}

// Attach keeps v with the leaf for as long as it lives and the tree is not replaced.
func (p *Pending) Attach(v any) {
	p.tree.lock()
	defer p.tree.mu.Unlock()
	if p.leaf.plan == p.plan {
		p.leaf.attached = v
	}
}

// Answer is the second half of a decision: what the store says. The leaf's own buckets
// are as full from then on as it says, for Remaining, for what its parent keeps for it,
// and for a decision without the store.
func (p *Pending) Answer(now Time, a Answer) Decision {
	return p.end(now, false, func(now Time) Decision {
		x := p.leaf
		if x.plan == p.plan {
			for i, owed := range a.Owed {
				b := x.bucket(i)
				x.move(now, i, algo.Times(uint64(max(0, owed)), b.Fill()))
			}
		}
		switch {
		case !a.Allowed && (a.Reason == AlsoLimit || p.gone()):
			return p.refuse(now, a.Reason, a.RetryAfter)
		case !a.Allowed: // who refuses knows nothing of the classes above
			d := p.refuse(now, a.Reason, 0)
			need := x.ticks.Cost(p.cost)
			wait := x.retryAfter(now, need)
			x.stake(now, need, wait)
			d.RetryAfter = x.untilHeard(now, verdict{why: a.Reason, by: -1}, need, wait)
			return d
		case p.lender > 0 && (a.Borrowed || !p.own):
			return p.admit(now, p.lender, 1)
		}
		return p.admit(now, 0, 1)
	})
}

// Alone is the second half without the store: by the leaf's buckets as they were last
// heard of, of which an equal part is this gateway's.
func (p *Pending) Alone(now Time, gateways int) Decision {
	return p.end(now, true, func(now Time) Decision {
		if p.gone() {
			return p.refuse(now, NothingToBorrow, 0)
		}
		x, n := p.leaf, int64(max(1, gateways))
		each := x.ticks.Cost(p.cost)
		if p.cost <= math.MaxInt64/n {
			each = x.ticks.Cost(p.cost * n) // takes an equal part n times as long
		}
		var wait time.Duration
		has := func(b algo.Bucket, tat Ticks) bool {
			need := each
			if b.Size().Less(need) { // a part too small for it is overdrawn
				need = b.Size()
			}
			at, ok := b.When(tat, need)
			if at > now {
				wait = max(wait, at.Sub(now))
			}
			return ok && at <= now
		}
		for i, b := range x.also {
			if !has(b, x.alsoTAT[i]) {
				return p.refuse(now, AlsoLimit, wait)
			}
		}
		if !has(x.ceil, x.ceilTAT) {
			return p.refuse(now, AtCeil, wait)
		}
		own := p.own && has(x.rate, x.rateTAT)
		if !own && p.lender == 0 {
			return p.refuse(now, NothingToBorrow, wait)
		}
		for i, b := range x.also {
			x.alsoTAT[i] = b.Charge(x.alsoTAT[i], now, each)
		}
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, each)
		if own {
			x.chargeRate(now, each)
			return p.admit(now, 0, n)
		}
		return p.admit(now, p.lender, n)
	})
}

// Pass is the second half that admits whatever the leaf's own buckets hold.
func (p *Pending) Pass(now Time) Decision {
	return p.end(now, true, func(now Time) Decision {
		if p.own {
			return p.admit(now, 0, 0)
		}
		return p.admit(now, p.lender, 0)
	})
}

// Refuse is the second half that admits nothing: the store cannot be asked before after.
func (p *Pending) Refuse(now Time, after time.Duration) Decision {
	return p.end(now, true, func(now Time) Decision { return p.refuse(now, NoStore, after) })
}

// Cancel gives back what was held, as if nothing had been asked.
func (p *Pending) Cancel(now Time) {
	p.end(now, false, func(now Time) Decision {
		p.giveBack(now)
		return Decision{}
	})
}

// Hold returns the Hold of a request that was asked for by AskHold and is admitted; nil
// otherwise. What it settles on the leaf's own buckets is for the store to settle, too.
func (p *Pending) Hold() *Hold { return p.held }

// end makes one second half of a decision, and no other.
func (p *Pending) end(now Time, outage bool, half func(now Time) Decision) Decision {
	p.tree.lock()
	defer p.tree.mu.Unlock()
	if p.done {
		return Decision{}
	}
	p.done = true
	p.leaf.open--
	d := half(p.tree.advance(now))
	d.Outage = outage
	return d
}

// gone reports whether the leaf is none of the tree any more, by a replacement: then what
// it held is booked or given back, and that is all.
func (p *Pending) gone() bool { return p.leaf.dropped || p.leaf.in != nil }

func (p *Pending) decision(now Time, v verdict) Decision {
	if p.gone() {
		p.leaf.countLate(v, p.cost)
	} else {
		p.leaf.count(v, p.cost)
	}
	return Decision{Allowed: v.why == 0, Reason: v.why, Up: v.by, tree: p.tree, leaf: p.leaf, at: now}
}

// admit books what was held as lent by the class lender levels above the leaf. The leaf's
// own buckets were charged weight times as much.
func (p *Pending) admit(now Time, lender int, weight int64) Decision {
	x := p.leaf
	if up := max(1, lender); up != p.from() {
		p.giveBack(now)
		p.charge(now, up)
	}
	if x.parent != nil { // from here on it is counted
		x.parent.hold(max(1, lender)-1, -p.cost)
	}
	if !p.gone() {
		x.borrow(now, lender, p.cost)
		if x.staked {
			x.unstake()
		}
	}
	if p.keep {
		x.open++
		p.held = &Hold{tree: p.tree, leaf: x, lender: lender, cost: p.cost, weight: weight}
	}
	return p.decision(now, verdict{by: lender})
}

func (p *Pending) refuse(now Time, why Reason, after time.Duration) Decision {
	p.giveBack(now)
	d := p.decision(now, verdict{why: why})
	d.RetryAfter = after
	return d
}

func (p *Pending) charge(now Time, from int) {
	if up := p.leaf.parent; up != nil {
		up.hold(from-1, p.cost)
		up.charge(now, from-1, p.cost)
	}
}

func (p *Pending) giveBack(now Time) {
	if up := p.leaf.parent; up != nil {
		up.hold(p.from()-1, -p.cost)
		up.refund(now, p.from()-1, p.cost)
	}
}
