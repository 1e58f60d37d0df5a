package queue

import (
	"github.com/google/btree"

	"github.com/go-sluice/sluice/algo"
)

// Waiting holds values that wait for a time, ordered by (time, id): the id makes
// keys unique, since equal keys would replace each other, and breaks ties the same
// way every time. Make one with [NewWaiting].
type Waiting[T any] struct{ tree *btree.BTreeG[waiter[T]] }

type waiter[T any] struct {
	at    algo.Time
	id    int
	value T
}

// NewWaiting returns an empty Waiting.
func NewWaiting[T any]() *Waiting[T] {
	return &Waiting[T]{btree.NewG(16, func(a, b waiter[T]) bool {
		return a.at < b.at || a.at == b.at && a.id < b.id
	})}
}

// Add puts value in, to wait for at; it takes the place of one with the same time and id.
func (w *Waiting[T]) Add(at algo.Time, id int, value T) {
	w.tree.ReplaceOrInsert(waiter[T]{at, id, value})
}

// Remove takes out what waits for at with that id and reports whether there was such.
func (w *Waiting[T]) Remove(at algo.Time, id int) bool {
	_, ok := w.tree.Delete(waiter[T]{at: at, id: id})
	return ok
}

// First returns what waits for the earliest time; ok is false when nothing waits.
func (w *Waiting[T]) First() (at algo.Time, id int, value T, ok bool) {
	m, ok := w.tree.Min()
	return m.at, m.id, m.value, ok
}

// Len returns how many wait.
func (w *Waiting[T]) Len() int { return w.tree.Len() }
