package htb

import (
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Report says what one gateway has used of a class since its twin there was made. Sums, not differences: a
// report that got lost is in the next one, and one that comes twice changes nothing.
type Report struct {
	Path       string
	Rate, Ceil Limit    // of the class
	Used       [2]int64 // units charged to rate and ceil, less refunds
	Base       [2]int64 // Used as of the latest answer
	Copy       uint64   // another one is another twin, that does not carry on Used

	class *class
}

// Shared is the answer to a Report: the class as all gateways use it.
type Shared struct {
	Owed     [2]time.Duration // until the rate and the ceil bucket are full; more than they take is a debt
	Total    [2]int64         // units that all gateways have used; only differences count
	Gateways int              // that use it, this one included
}

// mostLooks is how many twins are looked at in one go, so that no decision waits long.
const mostLooks = 1024

// Reports appends to reports what the twins that are in use, and whose turn it is, have
// to tell: of some of them, if there are many, and of others the next time. Names on
// paths of classes made from a template are data.
func (t *Tree) Reports(now Time, reports []Report) []Report {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	h := t.hub
	for looks := min(len(h.hot), mostLooks); looks > 0; looks-- {
		if h.next >= len(h.hot) {
			h.next = 0
		}
		x := h.hot[h.next]
		w := x.twin
		gone := w == nil || x.dropped
		if !gone && now < w.due {
			h.next++
			continue
		}
		if gone && w != nil {
			x.answered(now)
		}
		if !gone {
			w.due = now.Add(x.spec.Sync)
			w.idle++
			if asked := plus(x.counts.gets, x.counts.rejected); asked != w.asked {
				w.asked, w.idle = asked, 0
			}
			told := x.used(0) == w.of[0].base && x.used(1) == w.of[1].base
			if w.idle <= warm || !told && w.idle <= patient {
				w.reported = true
				reports = append(reports, x.report())
				h.next++
				continue
			}
			x.cold = true
			x.answered(now)
		}
		last := len(h.hot) - 1
		h.hot[h.next], h.hot[last] = h.hot[last], nil
		h.hot = h.hot[:last]
	}
	return reports
}

// Twins returns reports for classes with Sync that are in the tree now, in use or not, most
// of them at most: to learn at the start what other gateways have used.
func (t *Tree) Twins(now Time, most int) (all []Report) {
	t.lock()
	defer t.mu.Unlock()
	t.advance(now)
	t.root.walk(func(x *class) bool {
		if x.twin != nil {
			all = append(all, x.report())
		}
		return len(all) < most
	})
	return all
}

// walk visits x and all below it, named ones first, for as long as visit says.
func (x *class) walk(visit func(*class) bool) bool {
	if !visit(x) {
		return false
	}
	if x.in == nil {
		return true
	}
	for _, c := range x.in.named {
		if !c.walk(visit) {
			return false
		}
	}
	for _, r := range x.in.dyn.resting {
		if !r.child.walk(visit) {
			return false
		}
	}
	return x.in.dyn.overflow == nil || x.in.dyn.overflow.walk(visit)
}

func (x *class) report() Report {
	u := &x.twin.of
	s := &x.spec
	return Report{
		Path: x.path(), Rate: Limit{s.Rate, s.Burst}, Ceil: Limit{s.Ceil, s.CBurst},
		Used: [2]int64{x.used(0), x.used(1)}, Base: [2]int64{u[0].base, u[1].base},
		Copy: x.twin.copy, class: x,
	}
}

// Reconcile takes the answer to a report. A report from before another answer, or of a
// class that is no more, is nothing.
func (t *Tree) Reconcile(now Time, r Report, s Shared) {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	x := r.class
	w := x.twin
	if w == nil || x.dropped || w.copy != r.Copy || r.Base != [2]int64{w.of[0].base, w.of[1].base} {
		return
	}
	if x.cold { // it has not been charged for others, and its floor has not grown
		w.drifted = now
	}
	x.answered(now)
	x.drift(now)
	w.gateways = max(1, s.Gateways)
	w.floor, w.spent = smaller(x.floor(), x.mostFloor()), x.used(1)
	w.deep = false
	for i := range w.of {
		b := x.bucket(i)
		debt := algo.Times(uint64(max(0, s.Owed[i])), b.Fill()).Sub(b.Size())
		w.deep = w.deep || algo.Times(uint64(2*w.gateways)*uint64(x.spec.Sync), b.Fill()).Less(debt)
	}
	passed := now.Sub(w.seen).Seconds()
	for i, rate := range [...]algo.Rate{x.spec.Rate, x.spec.Ceil} {
		u := &w.of[i]
		u.learn(r.Used[i], s.Total[i], rate.PerSecond()*passed, w.gateways)
		x.correct(now, i, s.Owed[i], x.used(i)-u.base)
	}
	w.seen = now
}

// learn takes in what all have used, and from that what others are going to use, of a
// bucket that was filled with brought.
func (u *use) learn(reported, total int64, brought float64, gateways int) {
	if u.known && brought > 0 && total >= u.total {
		others := float64(total-u.total) - float64(reported-u.base)
		// Everybody makes way for what one uses more, each by an equal part of it: all
		// of it each, and they would swing.
		u.others += (max(0, others)/brought - u.others) / float64(gateways)
		u.others = min(u.others, 1)
	}
	u.base, u.total, u.known = reported, total, true
}

// bucket returns that of the rate, 0, or of the ceil, 1.
func (x *class) bucket(i int) algo.Bucket {
	if i == 0 {
		return x.rate
	}
	return x.ceil
}

func (x *class) tat(i int) Ticks {
	if i == 0 {
		return x.rateTAT
	}
	return x.ceilTAT
}

// correct moves bucket i to where all twins together have brought it, and this one by
// units more. What is less than an interval brings each gateway makes up for a part of,
// or they would all make up for the same.
func (x *class) correct(now Time, i int, owed time.Duration, units int64) {
	b := x.bucket(i)
	truth := algo.Times(uint64(max(0, owed)), b.Fill())
	if units > 0 {
		truth = truth.Add(x.ticks.Cost(units))
	} else {
		truth = truth.Sub(x.ticks.Cost(-units))
	}
	small := algo.Times(uint64(x.spec.Sync), b.Fill())
	if n := uint64(x.twin.gateways); n > 1 {
		have := b.Owed(x.tat(i), now)
		if more, less := truth.Sub(have), have.Sub(truth); more.Less(small) && less.Less(small) {
			part := uint32(1 << 32 / n)
			truth = have.Add(more.Part(part)).Sub(less.Part(part))
		}
	}
	x.move(now, i, truth)
}

// move charges or refunds bucket i until it lacks owed.
func (x *class) move(now Time, i int, owed Ticks) {
	have := x.bucket(i).Owed(x.tat(i), now)
	x.elsewhere(now, i, owed.Sub(have))
	x.giveBack(now, i, have.Sub(owed))
}

// elsewhere charges bucket i for what others use.
func (x *class) elsewhere(now Time, i int, need Ticks) {
	switch {
	case need.IsZero():
	case i == 0:
		x.chargeRate(now, need)
	default:
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, need)
	}
}

// giveBack is its inverse.
func (x *class) giveBack(now Time, i int, back Ticks) {
	switch {
	case back.IsZero():
	case i == 0:
		x.refundRate(now, back)
	default:
		x.ceilTAT = x.ceil.Refund(x.ceilTAT, back)
	}
}

// Drift charges the twins in use what others will have used by now, for all that is
// known. It wants to be called [Drifts] times in an interval.
func (t *Tree) Drift(now Time) {
	for from := 0; from >= 0; {
		from = t.drift(now, from)
	}
}

// drift does so for some, from one on, and returns which is next, -1 for none.
func (t *Tree) drift(now Time, from int) (next int) {
	t.lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	for _, x := range t.hub.hot[min(from, len(t.hub.hot)):] {
		if from++; x.twin != nil && !x.dropped {
			x.drift(now)
		}
		if from%mostLooks == 0 {
			return from
		}
	}
	return -1
}

func (x *class) drift(now Time) {
	w := x.twin
	passed := now.Sub(w.drifted)
	if passed <= 0 {
		return
	}
	w.drifted = now
	part, others := w.part(), [2]uint32{uint32(w.of[0].others * math.MaxUint32), uint32(w.of[1].others * math.MaxUint32)}
	if x.outage() == Local {
		others[0] = x.othersPart()
		others[1], part = others[0], math.MaxUint32-others[0]
	}
	brought := algo.Times(uint64(passed), x.rate.Fill())
	w.floor, w.spent = smaller(x.floor().Add(brought.Part(part)), x.mostFloor()), x.used(1)
	for i, part := range others {
		x.elsewhere(now, i, algo.Times(uint64(passed), x.bucket(i).Fill()).Part(part))
	}
}

// Disconnected says that answers do not come any more, for no class, what to do, and how
// many gateways there are at least; the zero Outage, that they come again.
func (t *Tree) Disconnected(now Time, o Outage, gateways int) {
	t.Drift(now)
	t.lock()
	defer t.mu.Unlock()
	t.hub.outage, t.hub.gateways = o, gateways
}

// Missed says that there was no answer to a report, as [Tree.Reconcile] says that there was one.
// After the second in a row o holds for its class, and there are as many gateways at least.
func (t *Tree) Missed(now Time, r Report, o Outage, gateways int) {
	t.lock()
	defer t.mu.Unlock()
	x := r.class
	if w := x.twin; w == nil || x.dropped || w.copy != r.Copy {
		return
	}
	x.drift(t.advance(now))
	t.hub.policy, t.hub.gateways = o, gateways
	if x.twin.missed++; x.twin.missed == outAfter {
		t.hub.missing++
	}
}

// answered says that x is in touch.
func (x *class) answered(now Time) {
	if x.twin.missed >= outAfter {
		x.drift(now)
		x.hub.missing--
	}
	x.twin.missed = 0
}

// SyncTTL returns how long the store is to remember a gateway that it does not hear of.
func (s Spec) SyncTTL() time.Duration {
	longest := ttlIntervals * s.Sync
	for _, c := range s.Children {
		longest = max(longest, c.SyncTTL())
	}
	return max(longest, time.Second)
}

// SyncEvery returns the shortest interval at which classes of the tree are to be
// reconciled; 0 if none is.
func (s Spec) SyncEvery() time.Duration {
	least := s.Sync
	for _, c := range s.Children {
		if d := c.SyncEvery(); d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
