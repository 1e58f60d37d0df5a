package algo

import (
	"sort"
	"time"
)

// SlidingLog remembers every request of the last window: in no window of that length,
// begin included and end not, does it let more than its limit through.
//
//	Formula: passes when what passed in (t - window, t] and cost are at most limit.
//	Bound:   limit*(1 + floor(w/window)) in any window of length w, both ends included.
//	State:   16 bytes for every instant of the last window at which something passed, so up to
//	         16*limit, and 8 for the latest time. The room of entries that no longer count is
//	         kept for others.
//	Source:  folklore; Redis sorted sets of timestamps.
//
// A decision is O(log n) when it refuses and O(1), amortised, when not. It allocates
// when the log outgrows all it held before.
type SlidingLog struct {
	limit  int64
	window time.Duration
	last   Time
	ring   []logged // of len a power of two
	head   uint64   // ring[head % len] is the oldest
	tail   uint64   // one beyond the newest
	gone   uint64   // total when the oldest came
	total  uint64   // units ever let through, modulo 2^64
}

// logged is an instant at which units passed.
type logged struct {
	at    Time
	total uint64 // units let through until then, these included
}

// NewSlidingLog returns a limiter of limit units in any window of that length. Both
// must be positive.
func NewSlidingLog(limit int64, window time.Duration) (*SlidingLog, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	return &SlidingLog{limit: limit, window: window, last: earliest}, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with, now: of
// entries that still count, not of the room that is kept for more.
func (l *SlidingLog) StateSize() int { return 8 + 16*l.len() }

func (l *SlidingLog) len() int { return int(l.tail - l.head) }

func (l *SlidingLog) at(i uint64) *logged { return &l.ring[i&uint64(len(l.ring)-1)] }

// Allow decides on a request of cost units at now; see [Limiter].
func (l *SlidingLog) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, l.limit); err != nil {
		return Verdict{}, err
	}
	l.last = max(l.last, now)
	for l.head < l.tail && elapsed(l.at(l.head).at, l.last) >= uint64(l.window) {
		l.gone = l.at(l.head).total
		l.head++
	}
	free := l.limit - int64(l.total-l.gone)
	v := Verdict{Allowed: cost <= free}
	if v.Allowed && cost > 0 {
		l.add(cost)
		free -= cost
	}
	if !v.Allowed {
		// The first after whose end enough has gone.
		need := uint64(cost - free)
		n := sort.Search(l.len(), func(i int) bool { return l.at(l.head+uint64(i)).total-l.gone >= need })
		v.RetryAfter = l.leaves(l.head + uint64(n))
	}
	v.Remaining = free
	if l.head < l.tail {
		v.Reset = l.leaves(l.tail - 1)
	}
	return v, nil
}

// leaves returns how long entry i still counts.
func (l *SlidingLog) leaves(i uint64) time.Duration {
	return l.window - time.Duration(elapsed(l.at(i).at, l.last))
}

func (l *SlidingLog) add(cost int64) {
	l.total += uint64(cost)
	if l.head < l.tail && l.at(l.tail-1).at == l.last {
		l.at(l.tail - 1).total = l.total
		return
	}
	if l.len() == len(l.ring) {
		grown := make([]logged, max(4, 2*len(l.ring)))
		for i := l.head; i < l.tail; i++ {
			grown[i&uint64(len(grown)-1)] = *l.at(i)
		}
		l.ring = grown
	}
	*l.at(l.tail) = logged{l.last, l.total}
	l.tail++
}
