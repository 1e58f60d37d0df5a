package queue

import (
	"math"

	"github.com/google/btree"
)

// RoundRobin is deficit round robin (Shreedhar and Varghese, "Efficient fair
// queueing using deficit round robin", 1995): members take turns, in each of which
// one is served while its deficit is above 0; a turn adds the member's quantum. A
// member whose last item cost more than it had sits out as many rounds as it takes
// to pay: they are skipped by arithmetic, so a cost far above the quanta costs no
// more time than another. Every operation takes O(log n).
//
// Bound: over any interval in which i and j have items all the time, with m the
// largest cost of each, what they get in quanta differs by
//
//	|S_i/q_i - S_j/q_j| < 2 + m_i/q_i + m_j/q_j.
//
// For let v_i = round_i - deficit_i/q_i: serving cost c raises it by c/q_i, so S_i/q_i
// is how far it went. With R the round of the member being served, one that waits for
// its turn in R has v in [R-1, R), and one that was served in R, or before, has
// v < R + m_i/q_i; so v_i - v_j always lies between -1-m_j/q_j and 1+m_i/q_i, and cannot
// change by more than the sum.
//
// The zero RoundRobin is not usable; make one with [NewRoundRobin].
type RoundRobin[T any] struct {
	tree  *btree.BTreeG[*Turn[T]]
	round int64
}

// Turn is a member of one RoundRobin at most. Quantum and ID are not to be changed
// while it is in one.
type Turn[T any] struct {
	Value   T
	Quantum int64 // at least 1
	ID      int   // unique; orders the members within a round

	round, deficit int64
	in             bool
}

// NewRoundRobin returns a RoundRobin without members.
func NewRoundRobin[T any]() *RoundRobin[T] {
	return &RoundRobin[T]{tree: btree.NewG(8, func(a, b *Turn[T]) bool {
		return a.round < b.round || a.round == b.round && a.ID < b.ID
	})}
}

// Len returns the number of members.
func (r *RoundRobin[T]) Len() int { return r.tree.Len() }

// Add puts t in, if it is not; it keeps what it owes from the last time.
func (r *RoundRobin[T]) Add(t *Turn[T]) {
	if t.in {
		return
	}
	if t.round < r.round || t.deficit <= 0 {
		t.round, t.deficit = r.round, t.Quantum
	}
	t.in = true
	r.tree.ReplaceOrInsert(t)
}

// Remove takes t out, if it is in.
func (r *RoundRobin[T]) Remove(t *Turn[T]) {
	if t.in {
		t.in = false
		r.tree.Delete(t)
	}
}

// First returns whose turn it is, nil if there are no members.
func (r *RoundRobin[T]) First() *Turn[T] {
	t, ok := r.tree.Min()
	if !ok {
		return nil
	}
	r.round = t.round
	return t
}

// Took books what the member got. It may have left meanwhile.
func (r *RoundRobin[T]) Took(t *Turn[T], cost int64) {
	if t.deficit -= min(cost, math.MaxInt64/4); t.deficit > 0 {
		return
	}
	in := t.in
	r.Remove(t)
	rounds := -t.deficit/t.Quantum + 1
	t.deficit += rounds * t.Quantum
	t.round += rounds
	if in {
		t.in = true
		r.tree.ReplaceOrInsert(t)
	}
}
