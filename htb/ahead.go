package htb

import (
	"math/bits"
	"unsafe"

	"github.com/go-sluice/sluice/internal/prefetch"
)

// lookahead has the memory fetched that the next releases are likely to touch, so that
// with very many classes, most of which are out of the caches, a release need not wait
// for one line after the other. A wrong guess costs the time of fetching in vain and
// changes nothing else.
//
// It follows each of the releases to come a step at a time, since where a step leads is
// read from the memory that the one before had fetched: to the class below the root whose
// turn it will be, down to the leaf, from that to its items, and from the first of those
// to its Value, which whoever gets it looks at.
type lookahead struct {
	at    [MaxDepth + 1]*shaping // how far the release has been followed that comes i-th from now
	depth int                    // of the deepest leaf: as many steps are there down to it
}

// step goes a step on with each, and begins with one more.
func (l *lookahead) step(root *shaping) {
	last := l.depth + 1
	for i, x := range l.at[1 : last+1] {
		if x != nil {
			x = x.follow(i)
		}
		l.at[i] = x
	}
	x := root.soon(last)
	if x != nil {
		prefetch.Lines(unsafe.Pointer(x))
	}
	l.at[last] = x
}

// follow has fetched what comes after x, which has been fetched, when there are i
// releases before it; it returns the class below x, or a leaf itself.
func (x *shaping) follow(i int) *shaping {
	if up := x.parent; up.parent != nil && up.below != 0 {
		up.in.next[bits.TrailingZeros8(up.below)].Prefetch()
	}
	switch {
	case x.level > 0:
		prefetch.Lines(unsafe.Pointer(x.in))
		if x = x.guess; x != nil {
			prefetch.Lines(unsafe.Pointer(x))
		}
	case i > 0:
		x.fifo.prefetch()
	default:
		x.fifo.prefetchValue()
	}
	return x
}

// soon guesses which class below x is on the way of the release that comes i-th from now,
// the next being the 0th: a child, or one further down where the children are so few that
// their turn comes more than once till then. It is nil if nothing is queued, or is a guess
// too many.
func (x *shaping) soon(i int) *shaping {
	for x.below != 0 {
		r := x.in.next[bits.TrailingZeros8(x.below)]
		n := r.Len()
		y, ok := r.Soon(i % n)
		if !ok || i < n || y.level == 0 {
			return y
		}
		x, i = y, i/n
	}
	return nil
}

// lookAhead does the same for classes that wait for tokens: a leaf that gets some is
// likely to send at once. The numbers leave time for what a step reads to be there.
func (w *sleepers) lookAhead() {
	if x, ok := w.agenda.Soon(8); ok {
		prefetch.Lines(unsafe.Pointer(x))
	}
	if x, ok := w.agenda.Soon(6); ok && x.level == 0 {
		prefetch.Lines(unsafe.Pointer(x.parent))
		x.fifo.prefetch()
	}
	if x, ok := w.agenda.Soon(4); ok && x.level == 0 && x.parent != nil {
		prefetch.Lines(unsafe.Pointer(x.parent.in))
		x.fifo.prefetchValue()
	}
}

// prefetch has the items at the ends of a queue fetched.
func (q *fifo) prefetch() {
	prefetch.Line(unsafe.Pointer(q.head))
	prefetch.Line(unsafe.Pointer(q.tail))
}

// prefetchValue has fetched what the Value of the first item points to.
func (q *fifo) prefetchValue() {
	if q.head != nil {
		value := (*[2]unsafe.Pointer)(unsafe.Pointer(&q.head.Value)) // the type of what it holds, and where that is
		prefetch.Line(value[1])
	}
}
