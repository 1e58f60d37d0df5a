package algo

import "time"

// FixedWindow counts in windows that follow each other, and begin at the multiples of
// their length from time 0.
//
//	Formula: count = 0 when a window begins; passes when count + cost <= limit, and adds cost.
//	Bound:   limit*(1 + ceil(w/window)) in any window of length w: twice the limit within a
//	         nanosecond, across an edge.
//	State:   16 bytes: the latest time and the count of its window.
//	Source:  folklore; Redis, "INCR", pattern: rate limiter.
//
// A copy is a limiter of its own.
type FixedWindow struct {
	limit  int64
	window time.Duration
	last   Time
	count  int64
}

// NewFixedWindow returns a limiter that lets limit units through in each window. Both
// must be positive.
func NewFixedWindow(limit int64, window time.Duration) (*FixedWindow, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	return &FixedWindow{limit: limit, window: window, last: earliest}, nil
}

// Allow decides on a request of cost units at now; see [Limiter].
func (f *FixedWindow) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, f.limit); err != nil {
		return Verdict{}, err
	}
	was, _ := windowOf(f.last, f.window)
	f.last = max(f.last, now)
	is, into := windowOf(f.last, f.window)
	if is != was {
		f.count = 0
	}
	v := Verdict{Allowed: cost <= f.limit-f.count}
	if v.Allowed {
		f.count += cost
	} else {
		v.RetryAfter = f.window - into
	}
	v.Remaining = f.limit - f.count
	if f.count > 0 {
		v.Reset = f.window - into
	}
	return v, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (f *FixedWindow) StateSize() int { return 16 }

// SlidingCounter counts in two windows that follow each other, and takes what came in
// the older one as evenly spread over it.
//
//	Formula: passes when previous*(window - e)/window + count + cost <= limit, e into the current
//	         window, and adds cost to count.
//	Bound:   limit + limit*w/window in any window of length w: twice the limit in one window, when
//	         all of the previous came at its end.
//	State:   24 bytes: the latest time, the count of its window and of the one before.
//	Source:  Cloudflare, "How we built rate limiting capable of scaling to millions of domains", 2017.
//
// It estimates what a [SlidingLog] knows. Windows begin at the multiples of their length
// from time 0. A copy is a limiter of its own.
type SlidingCounter struct {
	limit           int64
	window          time.Duration
	last            Time
	previous, count int64
}

// NewSlidingCounter returns a limiter of about limit units in any window of that
// length. Both must be positive.
func NewSlidingCounter(limit int64, window time.Duration) (*SlidingCounter, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	return &SlidingCounter{limit: limit, window: window, last: earliest}, nil
}

// Allow decides on a request of cost units at now; see [Limiter].
func (s *SlidingCounter) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, s.limit); err != nil {
		return Verdict{}, err
	}
	was, _ := windowOf(s.last, s.window)
	s.last = max(s.last, now)
	is, into := windowOf(s.last, s.window)
	switch uint64(is) - uint64(was) {
	case 0:
	case 1:
		s.previous, s.count = s.count, 0
	default:
		s.previous, s.count = 0, 0
	}
	left := s.window - into
	v := Verdict{Allowed: cost <= s.remaining(left)}
	if v.Allowed {
		s.count += cost
	} else {
		v.RetryAfter = s.retry(left, cost)
	}
	v.Remaining = s.remaining(left)
	switch {
	case s.count > 0:
		v.Reset = sum(left, s.window)
	case s.previous > 0:
		v.Reset = left
	}
	return v, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (s *SlidingCounter) StateSize() int { return 24 }

// remaining returns how many units would pass with so much of the window left.
func (s *SlidingCounter) remaining(left time.Duration) int64 {
	w := uint64(s.window)
	free := product(uint64(s.limit-s.count), w).Sub(product(uint64(s.previous), uint64(left)))
	return divide(free, w)
}

// retry returns how long until cost passes: once little enough of the previous window
// is left, or else of this one, when it is the previous one.
func (s *SlidingCounter) retry(left time.Duration, cost int64) time.Duration {
	if room := s.limit - s.count - cost; room >= 0 {
		return left - s.fits(room, s.previous)
	}
	return sum(left, s.window-s.fits(s.limit-cost, s.count))
}

// fits returns how much of the window may be left for count, spread over it, to weigh
// no more than room.
func (s *SlidingCounter) fits(room, count int64) time.Duration {
	return min(s.window, time.Duration(divide(product(uint64(room), uint64(s.window)), uint64(count))))
}
