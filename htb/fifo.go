package htb

import "math"

// fifo is the queue of a leaf. It is made of the callers' items, so that queueing
// allocates nothing.
//
// INVARIANT: the items from head to tail are linked by next, and all but the head by
// prev, each with in set; len and cost are their number and the sum of their costs. The
// prev of the head means nothing: to clear it would be one more line of memory to wait for.
type fifo struct {
	head, tail *Item
	len, limit int32
	cost       int64
}

// Len returns how many items are queued.
func (q *fifo) Len() int { return int(q.len) }

// push puts an item at the end and reports whether there was room.
func (q *fifo) push(i *Item) bool {
	if i.in {
		panic("htb: item queued twice")
	}
	if q.len >= q.limit || i.Cost > math.MaxInt64-q.cost {
		return false
	}
	i.in, i.prev, i.next = true, q.tail, nil
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

// pop takes the head out. There must be one.
func (q *fifo) pop() *Item {
	i := q.head
	if q.head = i.next; q.head == nil {
		q.tail = nil
	}
	q.left(i)
	return i
}

// remove takes an item of this queue out, wherever it is.
func (q *fifo) remove(i *Item) {
	if i == q.head {
		q.pop()
		return
	}
	if i.prev.next = i.next; i.next == nil {
		q.tail = i.prev
	} else {
		i.next.prev = i.prev
	}
	q.left(i)
}

func (q *fifo) left(i *Item) {
	i.in, i.prev, i.next = false, nil, nil
	q.len--
	q.cost -= i.Cost
}
