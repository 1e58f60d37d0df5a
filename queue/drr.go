package queue

import "math"

// RoundRobin is deficit round robin (Shreedhar and Varghese, "Efficient fair
// queueing using deficit round robin", 1995): members take turns, in each of which
// one is served while its deficit is above 0; a turn adds the member's quantum. A
// member whose last item cost more than it had sits out as many rounds as it takes
// to pay: they are skipped by arithmetic, so a cost far above the quanta costs no
// more time than another. An operation takes O(log n), and less while the members have equal
// quanta and costs: then they come round in the order in which they went.
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
// The zero RoundRobin has no members.
type RoundRobin[T any] struct {
	// An entry (round, ID) for each member. Those who leave stay listed until their entry
	// comes up: many are back before that, and need no other.
	agenda  Agenda[member[T]]
	round   int64
	n, most int // members, now and ever
}

// member has the value of a turn beside it, for those who do not need the turn yet.
type member[T any] struct {
	turn  *Turn[T]
	value T
}

// Turn is a member of one RoundRobin at most, the same one all its life. Value, Quantum
// and ID are not to be changed while it is in one.
//
// INVARIANT: a member is listed. What is listed has one entry of its round; any other
// entry of it is of an earlier round.
type Turn[T any] struct {
	Value   T
	Quantum int64 // at least 1
	ID      int   // unique; orders the members within a round

	round, deficit int64
	in, listed     bool
}

// NewRoundRobin returns a RoundRobin without members.
func NewRoundRobin[T any]() *RoundRobin[T] { return &RoundRobin[T]{} }

// Len returns the number of members.
func (r *RoundRobin[T]) Len() int { return r.n }

// Add puts t in, if it is not; it keeps what it owes from the last time.
func (r *RoundRobin[T]) Add(t *Turn[T]) {
	if t.in {
		return
	}
	if t.round < r.round || t.deficit <= 0 {
		t.round, t.deficit, t.listed = r.round, t.Quantum, false
	}
	t.in = true
	r.n++
	r.most = max(r.most, r.n)
	r.list(t)
}

// Remove takes t out, if it is in.
func (r *RoundRobin[T]) Remove(t *Turn[T]) {
	if t.in {
		t.in = false
		r.n--
	}
}

func (r *RoundRobin[T]) list(t *Turn[T]) {
	if t.listed {
		return
	}
	if r.agenda.Len() > 2*r.most+16 { // members come and go, and nobody asks who is first
		r.agenda.Keep(func(round int64, m member[T]) bool {
			return m.turn.in && m.turn.round == round || m.turn.unlist(round)
		})
	}
	t.listed = true
	r.agenda.Add(t.round, t.ID, member[T]{t, t.Value})
}

// unlist notes that an entry of t is taken out. It returns false.
func (t *Turn[T]) unlist(round int64) bool {
	t.listed = t.listed && t.round != round
	return false
}

// First returns whose turn it is, nil if there are no members.
func (r *RoundRobin[T]) First() *Turn[T] {
	for r.n > 0 {
		round, _, m, _ := r.agenda.First()
		t := m.turn
		if t.in && t.round == round {
			r.round = round
			return t
		}
		r.agenda.Next()
		t.unlist(round)
	}
	return nil
}

// Soon guesses whose turn it is after i others, without touching a Turn; ok is false when
// it cannot tell.
func (r *RoundRobin[T]) Soon(i int) (value T, ok bool) {
	m, ok := r.agenda.Soon(i)
	return m.value, ok
}

// Prefetch has the places that First and Took need brought into the caches.
func (r *RoundRobin[T]) Prefetch() { r.agenda.prefetch() }

// Took books what the member got. It may have left meanwhile.
func (r *RoundRobin[T]) Took(t *Turn[T], cost int64) {
	if t.deficit -= min(cost, math.MaxInt64/4); t.deficit > 0 {
		return
	}
	if round, _, first, ok := r.agenda.First(); ok && first.turn == t && round == t.round {
		r.agenda.Next()
	}
	rounds := -t.deficit/t.Quantum + 1
	t.deficit += rounds * t.Quantum
	t.round += rounds
	if t.listed = false; t.in {
		r.list(t)
	}
}
