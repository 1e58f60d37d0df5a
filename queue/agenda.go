package queue

import (
	"unsafe"

	"github.com/go-sluice/sluice/internal/prefetch"
)

// Agenda holds values by key, the least first and among equal keys the least id. It is
// made for keys most of which come in order: those stand in a ring, where putting one in
// and taking the first out touch one place each, however many there are; the others stand
// in a heap. It does not know where a value stands: whoever has no use for an entry any
// more lets it come up, or calls [Agenda.Keep]. The zero Agenda is empty.
//
// INVARIANT: the ring is sorted, from first on, around its end.
type Agenda[T any] struct {
	ring  []entry[T] // as long as a power of two, or nil
	first int
	n     int        // in the ring
	heap  []entry[T] // the children of i are 4i+1 to 4i+4: few places on the way down
}

type entry[T any] struct {
	key   int64
	id    int
	value T
}

func (e *entry[T]) before(o *entry[T]) bool {
	return e.key < o.key || e.key == o.key && e.id < o.id
}

// Len returns how many entries there are.
func (a *Agenda[T]) Len() int { return a.n + len(a.heap) }

// at returns the i-th of the ring.
func (a *Agenda[T]) at(i int) *entry[T] { return &a.ring[(a.first+i)&(len(a.ring)-1)] }

// Add puts a value in.
func (a *Agenda[T]) Add(key int64, id int, value T) {
	e := entry[T]{key, id, value}
	if a.n > 0 && e.before(a.at(a.n-1)) {
		if a.n > 1 && e.before(a.at(a.n-2)) {
			a.push(e)
			return
		}
		a.n-- // the last was far ahead of the rest: it must not send all that come now to the heap
		a.push(*a.at(a.n))
	}
	if a.n == len(a.ring) {
		a.grow()
	}
	a.n++
	*a.at(a.n - 1) = e
}

func (a *Agenda[T]) grow() {
	ring := make([]entry[T], max(4, 2*len(a.ring)))
	k := copy(ring, a.ring[a.first:])
	copy(ring[k:], a.ring[:a.first])
	a.ring, a.first = ring, 0
}

// First returns the entry that comes first; ok is false when there is none.
func (a *Agenda[T]) First() (key int64, id int, value T, ok bool) {
	switch {
	case a.ringFirst():
		e := a.at(0)
		return e.key, e.id, e.value, true
	case len(a.heap) > 0:
		e := &a.heap[0]
		return e.key, e.id, e.value, true
	}
	return key, id, value, false
}

// Soon returns the value that comes i-th, from 0 on, if nothing changes; or one that comes
// near that, or none: it costs little, and is for guesses.
func (a *Agenda[T]) Soon(i int) (value T, ok bool) {
	switch {
	case i < a.n:
		return a.at(i).value, true
	case i < a.Len():
		return a.heap[i-a.n].value, true
	}
	return value, false
}

// prefetch has the places of the first and of the next of the ring fetched.
func (a *Agenda[T]) prefetch() {
	if a.n > 0 {
		prefetch.Line(unsafe.Pointer(a.at(0)))
		prefetch.Line(unsafe.Pointer(a.at(a.n)))
	}
}

func (a *Agenda[T]) ringFirst() bool {
	return a.n > 0 && (len(a.heap) == 0 || a.at(0).before(&a.heap[0]))
}

// Next takes out what First returns. There must be an entry.
func (a *Agenda[T]) Next() {
	if a.ringFirst() {
		*a.at(0) = entry[T]{} // no pointer stays
		a.first = (a.first + 1) & (len(a.ring) - 1)
		a.n--
		return
	}
	last := len(a.heap) - 1
	e := a.heap[last]
	a.heap[last] = entry[T]{}
	if a.heap = a.heap[:last]; last > 0 {
		a.sink(0, e)
	}
}

// Keep leaves only the entries that keep is true of.
func (a *Agenda[T]) Keep(keep func(key int64, value T) bool) {
	n := 0
	for i := range a.n {
		if e := a.at(i); keep(e.key, e.value) {
			*a.at(n) = *e
			n++
		}
	}
	for i := n; i < a.n; i++ {
		*a.at(i) = entry[T]{}
	}
	a.n = n
	n = 0
	for _, e := range a.heap {
		if keep(e.key, e.value) {
			a.heap[n] = e
			n++
		}
	}
	clear(a.heap[n:])
	a.heap = a.heap[:n]
	for i := (n - 2) / 4; i >= 0 && n > 1; i-- {
		a.sink(i, a.heap[i])
	}
}

func (a *Agenda[T]) push(e entry[T]) {
	a.heap = append(a.heap, e)
	i := len(a.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&a.heap[up]) {
			break
		}
		a.heap[i] = a.heap[up]
		i = up
	}
	a.heap[i] = e
}

// sink puts e at i or below it, where it belongs.
func (a *Agenda[T]) sink(i int, e entry[T]) {
	for {
		least := 4*i + 1
		if least >= len(a.heap) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(a.heap)); c++ {
			if a.heap[c].before(&a.heap[least]) {
				least = c
			}
		}
		if !a.heap[least].before(&e) {
			break
		}
		a.heap[i] = a.heap[least]
		i = least
	}
	a.heap[i] = e
}
