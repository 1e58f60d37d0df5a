package htb

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Dialect is how a tree that shapes shares excess.
type Dialect int

const (
	// Strict: a ceil is a hard cap for everything below it, and excess is shared level
	// by level among the children of each class, by prio, then by quantum.
	Strict Dialect = iota
	// Kernel: as Linux sch_htb. A leaf within its rate sends whatever its ancestors'
	// state; excess is shared among leaves, by their prio and quantum; a class may go
	// into debt by an item.
	Kernel
)

func (d Dialect) purpose() purpose {
	if d == Kernel {
		return toShapeAsKernel
	}
	return toShape
}

// ErrFull is wrapped when a leaf's queue has no room.
var ErrFull = errors.New("queue is full")

// Scheduler is a tree that shapes: requests wait in a queue per leaf and are released
// in fair order. A leaf within its guarantee goes before all that borrow, excess goes
// by prio, and in proportion to quantum. It is pure: it knows no clock but its
// arguments, and starts nothing. It is not safe for concurrent use; sluice.Shaper is.
type Scheduler struct {
	tree     Tree // for finding classes; its lock is not used
	dialect  Dialect
	ticks    algo.Scale
	sleepers sleepers
	rows     rows8 // Kernel: the classes with tokens, by level and prio
	queued   int
	ahead    lookahead // Strict
	ids      int
}

// NewScheduler returns a scheduler without requests, every bucket full. A Spec with
// mistakes gives the error [Mistakes], all of them at once.
func NewScheduler(root Spec, d Dialect) (*Scheduler, error) {
	p, m := compile(root, d.purpose())
	if err := m.fatal(); err != nil {
		return nil, err
	}
	s := &Scheduler{dialect: d, ticks: p.ticks}
	above := &class{sh: &shaping{in: &rings{sched: s, most: p.spec.Weight()}}}
	s.tree = Tree{root: newClass(p, above, ""), last: math.MinInt64, spec: root.clone()}
	s.tree.root.parent, s.tree.root.sh.parent = nil, nil
	return s, nil
}

// Item is a request in a Scheduler. The caller makes it, sets Cost and Value, and may
// use it again once it is released or cancelled.
type Item struct {
	Cost  int64 // at least 1
	Value any

	next, prev *Item
	leaf       *shaping // that it was queued in last
	queued     Time
	lender     uint8
	in         bool // a queue
}

// Queued returns since when it has been queued, Leaf the path of its leaf.
func (i *Item) Queued() Time { return i.queued }

// Leaf returns the path of the leaf it was queued in last, "" before that.
func (i *Item) Leaf() string {
	if i.leaf == nil {
		return ""
	}
	return i.leaf.class.path()
}

// Borrowed returns how many levels above the leaf the class is that lent to a
// released item; 0 when the leaf paid itself.
func (i *Item) Borrowed() int { return int(i.lender) }

// Leads says why names do not lead to a leaf.
func (s *Scheduler) Leads(names []string) error { return s.tree.root.leads(names) }

// Len returns how many requests are queued.
func (s *Scheduler) Len() int { return s.queued }

// Enqueue puts an item at the end of the queue of the leaf that names lead to. It
// takes no tokens. The errors are those of [Tree.Allow] for the names, and [ErrFull].
func (s *Scheduler) Enqueue(now Time, i *Item, names ...string) error {
	now = s.tree.advance(now)
	x, err := s.tree.find(now, names, i.Cost)
	if err != nil {
		return err
	}
	return s.push(now, i, x.sh)
}

// EnqueueLeaf is Enqueue at the leaf of a handle, without a lookup.
func (s *Scheduler) EnqueueLeaf(now Time, i *Item, l *Leaf) error {
	now = s.tree.advance(now)
	x := l.sh
	if x == nil || x.dropped || i.Cost < 0 {
		var err error
		if x, err = l.queue(now, i.Cost); err != nil {
			return err
		}
	}
	return s.push(now, i, x)
}

// queue returns the leaf of a handle, and has the handle keep it if it is its own.
func (l *Leaf) queue(now Time, cost int64) (*shaping, error) {
	l.sh = nil
	x, err := l.live(now, cost)
	if err != nil {
		return nil, err
	}
	if l.class.Load() == x {
		l.sh = x.sh
	}
	return x.sh, nil
}

// Leaf returns a handle on the leaf that names lead to, for EnqueueLeaf and
// EarliestLeaf. It is for this scheduler only, and cannot police.
func (s *Scheduler) Leaf(names ...string) (*Leaf, error) { return s.tree.Leaf(names...) }

func (s *Scheduler) push(now Time, i *Item, x *shaping) error {
	if i.Cost < 1 {
		return fmt.Errorf("htb: class %q: cost %d: a queued request costs 1 or more: %w", x.class.path(), i.Cost, ErrCost)
	}
	if !x.fifo.push(i) {
		x.drops[DropLimit]++
		return fmt.Errorf("htb: class %q: %d requests are queued: %w", x.class.path(), x.fifo.len, ErrFull)
	}
	i.leaf, i.queued = x, now
	s.queued++
	if x.fifo.len == 1 {
		s.activate(now, x)
	}
	return nil
}

// Drop is why a request was not released.
type Drop int

// The reasons.
const (
	DropCancelled Drop = iota // its caller gave up
	DropDeadline              // its caller's time was up, or was too short from the start
	DropMaxWait               // it waited as long as its leaf allows
	DropLimit                 // its leaf's queue was full
)

var dropNames = [...]string{"cancelled", "deadline", "maxWait", "limit"}

// String names the reason as reports do.
func (d Drop) String() string { return dropNames[d] }

// Cancel takes an item out of its queue and reports whether it was in one. It has
// taken no tokens, so nothing is given back.
func (s *Scheduler) Cancel(i *Item, why Drop) bool {
	if !i.in {
		return false
	}
	x := i.leaf
	x.fifo.remove(i)
	x.drops[why]++
	s.queued--
	if x.fifo.len == 0 {
		s.deactivate(x)
	}
	return true
}

// Dequeue releases the item whose turn it is at now and charges for it. Without one,
// ok is false and next the earliest time at which there may be one, the end of time
// when nothing is queued.
func (s *Scheduler) Dequeue(now Time) (item *Item, next Time, ok bool) {
	now = s.tree.advance(now)
	s.wakeUp(now)
	if s.queued > 0 {
		if s.dialect == Kernel {
			item = s.dequeueKernel(now)
		} else {
			item = s.dequeueStrict(now)
		}
	}
	if item != nil {
		return item, now, true
	}
	if x, waits := s.sleepers.first(); waits && s.queued > 0 {
		return nil, x.wake, false
	}
	return nil, math.MaxInt64, false
}

// pop takes the head of a leaf's queue.
func (s *Scheduler) pop(now Time, x *shaping) *Item {
	i := x.fifo.pop()
	s.queued--
	x.waited.Add(now.Sub(i.queued))
	return i
}

// wakeUp looks at the classes whose time has come.
func (s *Scheduler) wakeUp(now Time) {
	for {
		x, ok := s.sleepers.due(now)
		if !ok {
			return
		}
		if s.dialect == Strict {
			s.sleepers.lookAhead()
		}
		s.update(now, x)
	}
}

// update brings what is kept of x up to date after its tokens changed.
func (s *Scheduler) update(now Time, x *shaping) {
	if s.dialect == Kernel {
		s.remode(now, x)
	} else {
		s.reconsider(now, x)
	}
}

func (s *Scheduler) activate(now Time, x *shaping) {
	if s.dialect == Kernel {
		s.activateKernel(x)
	} else {
		s.reconsider(now, x)
	}
}

func (s *Scheduler) deactivate(x *shaping) {
	if s.dialect == Kernel {
		s.deactivateKernel(x)
	} else {
		s.refresh(x, x.inRate(s.tree.last))
	}
}

// Settle corrects the charge for a released item to what it cost, on exactly the
// classes that paid; see [Hold.Settle].
func (s *Scheduler) Settle(now Time, i *Item, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("htb: settling to %d: a cost is not negative: %w", cost, ErrCost)
	}
	now = s.tree.advance(now)
	if cost < i.Cost {
		s.refund(i.leaf, int(i.lender), i.Cost-cost)
	} else {
		s.charge(now, i.leaf, int(i.lender), cost-i.Cost)
	}
	i.Cost = cost
	for x := i.leaf; x != nil; x = x.parent {
		s.update(now, x)
	}
	return nil
}

// EarliestLeaf returns a time before which a request of cost units, queued now at the
// leaf of a handle, cannot be released: what is ahead of it in its own queue and itself,
// at the ceils on the path. MaxWait is that of the leaf.
func (s *Scheduler) EarliestLeaf(now Time, cost int64, l *Leaf) (at Time, maxWait time.Duration, err error) {
	now = s.tree.advance(now)
	x, err := l.live(now, cost)
	if err != nil {
		return 0, 0, err
	}
	at, maxWait = x.earliest(now, cost)
	return at, maxWait, nil
}

func (x *class) earliest(now Time, cost int64) (at Time, maxWait time.Duration) {
	maxWait = x.spec.MaxWait
	if maxWait == 0 {
		maxWait = DefaultMaxWait
	}
	at = now
	all := plus(x.sh.fifo.cost, max(cost, 0))
	for y := x.sh; y != nil; y = y.parent {
		paid := y.ceil.Charge(y.ceilTAT, now, x.ticks.Cost(all)).Sub(y.ceil.Size())
		at = max(at, latest(y.ceil.Reaches(paid)))
	}
	return at, maxWait
}

// Refuse counts a request of a handle's leaf that is not queued since its time is too
// short.
func (s *Scheduler) Refuse(now Time, l *Leaf) {
	if x, err := l.live(s.tree.advance(now), 0); err == nil {
		x.sh.drops[DropDeadline]++
	}
}
