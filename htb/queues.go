package htb

import (
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/queue"
)

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

// queueCounts are the counters of queues.
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

// of adds the counters of the queue of x itself.
func (c *queueCounts) of(x *shaping) {
	x.waited.AddTo(&c.waited)
	c.merge(&queueCounts{drops: x.drops})
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
	rows = append(rows, QueueStats{Path: x.path(), Depth: x.depth, Len: x.sh.fifo.Len(), Cost: x.sh.fifo.cost})
	if sum.of(x.sh); x.in == nil {
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
		var counts queueCounts
		if x.sh.gone != nil {
			counts.merge(x.sh.gone)
		}
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
