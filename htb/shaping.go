package htb

import (
	"math"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/queue"
)

// shaping is what a class of a tree that shapes has besides, and all that scheduling
// touches of it: with very many leaves each is out of the caches when its turn comes, and
// what a release takes is how many lines of memory it has to wait for. So what every
// release needs stands first, in four lines of 64 bytes, with copies of what the plan
// says; what borrowing needs is a fifth. A size of five lines makes Go begin each with one.
type shaping struct {
	own     turn // for what it pays itself; holds its id
	parent  *shaping
	level   uint8 // 0 for a leaf, 7 for an inner root, an inner class one below its parent
	prio    uint8
	mask    uint8 // the levels under which it stands in its parent's rings
	below   uint8 // the levels of its own rings that have members
	oversub bool
	also    bool // has limits of its own besides
	dropped bool // no longer in the tree

	rateTAT, ceilTAT Ticks // in place of those of the class
	rate             algo.Bucket
	wake             Time // when it is looked at again, never for not at all

	ceil   algo.Bucket
	capped Time     // Strict: its ceil keeps it, and all below it, until then
	listed Time     // its entry among those that wait, never if it has none
	guess  *shaping // of an inner class: the child that is likely to be next
	fifo   fifo     // its ends in this line, the rest in the next

	waited queue.Tally // of what was released

	borrowing turn // Strict: for what its parent, or one above, pays
	in        *rings
	*rare
}

type turn = queue.Turn[*shaping]

// never is before all that a class may wait for.
const never = math.MinInt64

// rare is what a release does not need of a class, or in the Kernel dialect only.
type rare struct {
	class *class
	drops [len(dropNames)]int64 // by reason
	gone  *queueCounts          // of an inner class: of children of its template that were dropped
	*kernelState
}

func newShaping(x *class) *shaping {
	up := x.parent.sh
	s := up.in.sched
	sh := &shaping{
		rare: &rare{class: x}, parent: up, prio: uint8(x.spec.Prio), oversub: x.oversub, also: len(x.also) > 0,
		rate: x.rate, ceil: x.ceil, capped: never, wake: never, listed: never,
	}
	sh.own = turn{Value: sh, Quantum: up.in.quantum(x.plan), ID: s.ids}
	sh.borrowing = sh.own
	s.ids++
	if s.dialect == Kernel {
		sh.kernelState = &kernelState{}
	}
	if x.inner() {
		sh.level = uint8(MaxDepth - 1 - x.depth)
		sh.in = newRings(s, x.plan)
		return sh
	}
	s.ahead.depth = max(s.ahead.depth, x.depth)
	sh.fifo.limit = DefaultLimit
	if x.spec.Limit > 0 {
		sh.fifo.limit = int32(min(x.spec.Limit, math.MaxInt32))
	}
	return sh
}

// busy says that the class is not as if new, though its buckets may be full.
func (sh *shaping) busy() bool { return sh.fifo.len > 0 || sh.wake != never }

// charge books cost: ceil on the whole path, rate from the lender up.
func (s *Scheduler) charge(now Time, leaf *shaping, lender int, cost int64) {
	need := s.ticks.Cost(cost)
	if leaf.also {
		for i, b := range leaf.class.also {
			leaf.class.alsoTAT[i] = b.Charge(leaf.class.alsoTAT[i], now, need)
		}
	}
	for j, x := 0, leaf; x != nil; j, x = j+1, x.parent {
		x.ceilTAT = x.ceil.Charge(x.ceilTAT, now, need)
		if j >= lender {
			x.rateTAT = x.rate.Charge(x.rateTAT, now, need)
		}
	}
}

// refund takes back part of a charge with the same lender.
func (s *Scheduler) refund(leaf *shaping, lender int, cost int64) {
	need := s.ticks.Cost(cost)
	for i, b := range leaf.class.also {
		leaf.class.alsoTAT[i] = b.Refund(leaf.class.alsoTAT[i], need)
	}
	for j, x := 0, leaf; x != nil; j, x = j+1, x.parent {
		x.ceilTAT = x.ceil.Refund(x.ceilTAT, need)
		if j >= lender {
			x.rateTAT = x.rate.Refund(x.rateTAT, need)
		}
	}
}

// sleepers are the classes that wait for tokens. An entry is put in when a class has
// none, or has to be looked at sooner than its entry says; it is not moved when that is
// to be later, as with every release of a class that owes, but when it comes up.
type sleepers struct {
	agenda  queue.Agenda[*shaping]
	n, most int // classes that wait, now and ever
}

// sleep has x looked at again at a time; now, or a time in the past, means not at all.
func (w *sleepers) sleep(x *shaping, now, at Time) {
	if at == x.wake {
		return
	}
	w.wakes(x)
	if at <= now {
		return
	}
	x.wake = at
	w.n++
	w.most = max(w.most, w.n)
	if x.listed == never || at < x.listed {
		w.list(x)
	}
}

// wakes notes that x does not wait any more.
func (w *sleepers) wakes(x *shaping) {
	if x.wake != never {
		x.wake = never
		w.n--
	}
}

func (w *sleepers) list(x *shaping) {
	if w.agenda.Len() > 2*w.most+64 { // of classes looked at sooner, or that wait no more
		w.agenda.Keep(func(at int64, x *shaping) bool {
			mine := x.listed == Time(at)
			if mine && x.wake == never {
				x.listed, mine = never, false
			}
			return mine
		})
	}
	x.listed = x.wake
	w.agenda.Add(int64(x.wake), x.own.ID, x)
}

// first returns the class that waits for the earliest time; ok is false when none waits.
func (w *sleepers) first() (x *shaping, ok bool) {
	for {
		at, _, x, ok := w.agenda.First()
		if !ok || x.wake == Time(at) && x.listed == Time(at) {
			return x, ok
		}
		w.agenda.Next()
		if x.listed != Time(at) {
			continue
		}
		if x.listed = never; x.wake != never {
			w.list(x)
		}
	}
}

// due takes out the class that first returns, if its time has come by now.
func (w *sleepers) due(now Time) (x *shaping, ok bool) {
	x, ok = w.first()
	if !ok || x.wake > now {
		return nil, false
	}
	w.agenda.Next()
	x.listed = never
	w.wakes(x)
	return x, true
}
