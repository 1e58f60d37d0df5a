package htb

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/queue"
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
	tree    Tree // for finding classes; its lock is not used
	dialect Dialect
	waiting *queue.Waiting[*class] // classes that wait for tokens
	rows    rows8                  // Kernel: the classes with tokens, by level and prio
	queued  int
	ids     int
}

// NewScheduler returns a scheduler without requests, every bucket full. A Spec with
// mistakes gives the error [Mistakes], all of them at once.
func NewScheduler(root Spec, d Dialect) (*Scheduler, error) {
	p, m := compile(root, d.purpose())
	if err := m.fatal(); err != nil {
		return nil, err
	}
	s := &Scheduler{dialect: d, waiting: queue.NewWaiting[*class]()}
	s.tree = Tree{root: &class{sh: &shaping{sched: s}}, last: math.MinInt64, spec: root.clone()}
	s.tree.root = newClass(p, s.tree.root, "")
	s.tree.root.parent = nil
	return s, nil
}

// Item is a request in a Scheduler. The caller makes it, sets Cost and Value, and may
// use it again once it is released or cancelled.
type Item struct {
	Cost  int64 // at least 1
	Value any

	link   queue.Item[*Item]
	leaf   *class
	queued Time
	lender int
}

// Queued returns since when it has been queued, Leaf the path of its leaf.
func (i *Item) Queued() Time { return i.queued }

// Leaf returns the path of the leaf it was queued in last, "" before that.
func (i *Item) Leaf() string {
	if i.leaf == nil {
		return ""
	}
	return i.leaf.path()
}

// Borrowed returns how many levels above the leaf the class is that lent to a
// released item; 0 when the leaf paid itself.
func (i *Item) Borrowed() int { return i.lender }

// shaping is what a class of a tree that shapes has besides.
type shaping struct {
	sched *Scheduler
	id    int // in the order in which classes were made: breaks ties
	level int // 0 for a leaf, 7 for an inner root, an inner class one below its parent
	fifo  queue.FIFO[*Item]
	queueCounts
	gone  queueCounts // of an inner class: of children of its template that were dropped
	wake  Time        // when it is looked at again
	waits bool

	strictState
	kernelState
}

// queueCounts are the counters of a queue.
type queueCounts struct {
	drops  [len(dropNames)]int64 // by reason
	waited queue.Histogram       // of what was released
}

func (c *queueCounts) merge(o *queueCounts) {
	for why, n := range o.drops {
		c.drops[why] += n
	}
	c.waited.Merge(&o.waited)
}

func newShaping(x *class) *shaping {
	up := x.parent.sh
	s := &shaping{sched: up.sched, id: up.sched.ids}
	s.sched.ids++
	s.capped = math.MinInt64
	if x.inner() {
		s.level = MaxDepth - 1 - x.depth
	} else {
		s.fifo.MaxItems = x.spec.Limit
		if s.fifo.MaxItems == 0 {
			s.fifo.MaxItems = DefaultLimit
		}
	}
	return s
}

// busy says that the class is not as if new, though its buckets may be full.
func (s *shaping) busy() bool { return s.fifo.Len() > 0 || s.waits }

// sleep has x looked at again at a time; now, or a time in the past, means not at all.
func (s *Scheduler) sleep(x *class, now, at Time) {
	sh := x.sh
	if sh.waits && sh.wake == at {
		return
	}
	if sh.waits {
		s.waiting.Remove(sh.wake, sh.id)
	}
	if sh.waits = at > now; sh.waits {
		sh.wake = at
		s.waiting.Add(at, sh.id, x)
	}
}

// Leads says why names do not lead to a leaf.
func (s *Scheduler) Leads(names []string) error { return s.tree.root.leads(names) }

// Len returns how many requests are queued.
func (s *Scheduler) Len() int { return s.queued }

// Enqueue puts an item at the end of the queue of the leaf that names lead to. It
// takes no tokens. The errors are those of [Tree.Allow] for the names, and [ErrFull].
func (s *Scheduler) Enqueue(now Time, i *Item, names ...string) error {
	now = s.tree.advance(now)
	x, _, err := s.tree.find(now, names, i.Cost)
	if err != nil {
		return err
	}
	return s.push(now, i, x)
}

// EnqueueLeaf is Enqueue at the leaf of a handle, without a lookup.
func (s *Scheduler) EnqueueLeaf(now Time, i *Item, l *Leaf) error {
	now = s.tree.advance(now)
	x, err := l.live(now, i.Cost)
	if err != nil {
		return err
	}
	return s.push(now, i, x)
}

// Leaf returns a handle on the leaf that names lead to, for EnqueueLeaf and
// EarliestLeaf. It is for this scheduler only, and cannot police.
func (s *Scheduler) Leaf(names ...string) (*Leaf, error) { return s.tree.Leaf(names...) }

func (s *Scheduler) push(now Time, i *Item, x *class) error {
	if i.Cost < 1 {
		return fmt.Errorf("htb: class %q: cost %d: a queued request costs 1 or more: %w", x.path(), i.Cost, ErrCost)
	}
	i.link.Value, i.link.Cost = i, i.Cost
	if !x.sh.fifo.Push(&i.link) {
		x.sh.drops[DropLimit]++
		return fmt.Errorf("htb: class %q: %d requests are queued: %w", x.path(), x.sh.fifo.Len(), ErrFull)
	}
	i.leaf, i.queued = x, now
	s.queued++
	if x.sh.fifo.Len() == 1 {
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
	if i.leaf == nil || !i.leaf.sh.fifo.Remove(&i.link) {
		return false
	}
	i.leaf.sh.drops[why]++
	s.queued--
	if i.leaf.sh.fifo.Len() == 0 {
		s.deactivate(i.leaf)
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
		item.leaf.sh.waited.Add(now.Sub(item.queued))
		return item, now, true
	}
	if at, _, _, waits := s.waiting.First(); waits && s.queued > 0 {
		return nil, at, false
	}
	return nil, math.MaxInt64, false
}

// pop takes the head of a leaf's queue.
func (s *Scheduler) pop(x *class) *Item {
	s.queued--
	return x.sh.fifo.Pop().Value
}

// wakeUp looks at the classes whose time has come.
func (s *Scheduler) wakeUp(now Time) {
	for {
		at, id, x, ok := s.waiting.First()
		if !ok || at > now {
			return
		}
		s.waiting.Remove(at, id)
		x.sh.waits = false
		if s.dialect == Kernel {
			s.remode(now, x)
		} else {
			s.reconsider(now, x)
		}
	}
}

func (s *Scheduler) activate(now Time, x *class) {
	if s.dialect == Kernel {
		s.activateKernel(x)
	} else {
		s.reconsider(now, x)
	}
}

func (s *Scheduler) deactivate(x *class) {
	if s.dialect == Kernel {
		s.deactivateKernel(x)
	} else {
		s.refresh(x)
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
		i.leaf.refund(now, i.lender, i.Cost-cost)
	} else {
		i.leaf.charge(now, i.lender, cost-i.Cost)
	}
	i.Cost = cost
	for x := i.leaf; x != nil; x = x.parent {
		if s.dialect == Kernel {
			s.remode(now, x)
		} else {
			s.reconsider(now, x)
		}
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
	all := plus(x.sh.fifo.Cost(), max(cost, 0))
	for y := x; y != nil; y = y.parent {
		paid := y.ceil.Charge(y.ceilTAT, now, y.ticks.Cost(all)).Sub(y.ceil.Size())
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

// QueueStats tells of the queue of a leaf or, of an inner class, of all queues below it.
type QueueStats struct {
	Path     string                // as [Path] writes it; "*" at the end: children of a template without a row of their own
	Depth    int                   // 0 for the root
	Len      int                   // requests queued now
	Cost     int64                 // the sum of their costs
	Released int64                 // requests
	Dropped  [len(dropNames)]int64 // requests, by [Drop]
	P50, P99 time.Duration         // of the time that released ones waited, to within 3 %
	Max      time.Duration
}

// Queues returns a row for every class, the root first and each class before those
// below it; after the children of a template the row path/* with what is counted of
// those that were dropped or shared a child.
func (s *Scheduler) Queues() []QueueStats {
	rows, _ := s.tree.root.queues(nil)
	return rows
}

func (x *class) queues(rows []QueueStats) ([]QueueStats, queueCounts) {
	at, sum := len(rows), queueCounts{}
	rows = append(rows, QueueStats{Path: x.path(), Depth: x.depth, Len: x.sh.fifo.Len(), Cost: x.sh.fifo.Cost()})
	if sum.merge(&x.sh.queueCounts); x.in == nil {
		rows[at].count(&sum)
		return rows, sum
	}
	below := slices.Clone(x.in.named)
	for _, r := range x.in.dyn.resting {
		below = append(below, r.child)
	}
	slices.SortFunc(below[len(x.in.named):], func(a, b *class) int { return strings.Compare(a.name, b.name) })
	for _, c := range below {
		first := len(rows)
		var counts queueCounts
		rows, counts = c.queues(rows)
		rows[at].Len += rows[first].Len
		rows[at].Cost += rows[first].Cost
		sum.merge(&counts)
	}
	if x.template != nil {
		rest := QueueStats{Path: x.restPath(), Depth: x.depth + 1}
		counts := x.sh.gone
		if o := x.in.dyn.overflow; o != nil {
			shared, more := o.queues(nil)
			rest.Len, rest.Cost = shared[0].Len, shared[0].Cost
			counts.merge(&more)
		}
		rest.count(&counts)
		rows[at].Len += rest.Len
		rows[at].Cost += rest.Cost
		rows = append(rows, rest)
		sum.merge(&counts)
	}
	rows[at].count(&sum)
	return rows, sum
}

func (q *QueueStats) count(c *queueCounts) {
	q.Released, q.Dropped = c.waited.N(), c.drops
	q.P50, q.P99, q.Max = c.waited.Quantile(0.5), c.waited.Quantile(0.99), c.waited.Max()
}
