package queue

import "math"

// FIFO is a queue bounded by items and by cost. The zero FIFO is empty and without
// bounds. Its items are the caller's, so that queueing allocates nothing.
//
// INVARIANT: the items from head to tail are linked both ways, each with q set;
// len and cost are their number and the sum of their costs.
type FIFO[T any] struct {
	MaxItems int   // 0: no bound
	MaxCost  int64 // 0: no bound. One item always fits into an empty queue

	head, tail *Item[T]
	len        int
	cost       int64
}

// Item is an element of a FIFO. It is in one queue at most at a time.
type Item[T any] struct {
	Value T
	Cost  int64 // not to be changed while queued

	next, prev *Item[T]
	q          *FIFO[T]
}

// Queued reports whether the item is in a queue.
func (i *Item[T]) Queued() bool { return i.q != nil }

// Len returns the number of items, Cost the sum of their costs.
func (q *FIFO[T]) Len() int { return q.len }

// Cost returns the sum of the costs of the items.
func (q *FIFO[T]) Cost() int64 { return q.cost }

// Head returns the oldest item, nil if there is none.
func (q *FIFO[T]) Head() *Item[T] { return q.head }

// Push puts an item at the end and reports whether there was room. It panics if the
// item is in a queue already.
func (q *FIFO[T]) Push(i *Item[T]) bool {
	if i.q != nil {
		panic("queue: item pushed twice")
	}
	switch {
	case q.MaxItems > 0 && q.len >= q.MaxItems,
		q.MaxCost > 0 && q.len > 0 && i.Cost > q.MaxCost-q.cost,
		i.Cost > math.MaxInt64-q.cost:
		return false
	}
	i.q, i.prev, i.next = q, q.tail, nil
	if q.tail == nil {
		q.head = i
	} else {
		q.tail.next = i
	}
	q.tail = i
	q.len++
	q.cost += i.Cost
	return true
}

// Pop takes the oldest item out and returns it, nil if there is none.
func (q *FIFO[T]) Pop() *Item[T] {
	i := q.head
	if i != nil {
		q.Remove(i)
	}
	return i
}

// Remove takes an item out, wherever it is, in constant time. It reports whether
// the item was in this queue.
func (q *FIFO[T]) Remove(i *Item[T]) bool {
	if i.q != q {
		return false
	}
	if i.prev == nil {
		q.head = i.next
	} else {
		i.prev.next = i.next
	}
	if i.next == nil {
		q.tail = i.prev
	} else {
		i.next.prev = i.prev
	}
	i.q, i.prev, i.next = nil, nil, nil
	q.len--
	q.cost -= i.Cost
	return true
}
