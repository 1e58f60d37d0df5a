package algo

import (
	"errors"
	"math"
)

// LeakyMeter is the leaky bucket as a meter: a request pours in what it costs, the
// bucket leaks at the rate, and what would make it run over is refused.
//
//	Formula: level = max(0, level - rate*(t - last)); passes when level + cost <= burst, and adds cost.
//	Bound:   burst + rate*w in any window of length w.
//	State:   24 bytes: the level, exact, and the latest time.
//	Source:  Turner, "New directions in communications", IEEE Communications Magazine 24(10), 1986: a
//	         counter that is raised by what is sent and lowered periodically; ITU-T I.371, annex A,
//	         continuous-state leaky bucket.
//
// Its level is what a [TokenBucket] lacks, so both decide the same. With a burst of 1
// it is the strict one of many descriptions, which spaces requests by 1/rate. A copy
// is a limiter of its own.
type LeakyMeter struct {
	scale  Scale
	bucket Bucket
	burst  int64
	level  Ticks
	last   Time
}

// NewLeakyMeter returns a limiter, empty. The rate must not be zero, the burst, which
// is the bucket's capacity, at least 1.
func NewLeakyMeter(rate Rate, burst int64) (*LeakyMeter, error) {
	s, b, err := newBucket(rate, burst)
	if err != nil {
		return nil, err
	}
	return &LeakyMeter{scale: s, bucket: b, burst: burst, last: earliest}, nil
}

// Allow decides on a request of cost units at now; see [Limiter].
func (m *LeakyMeter) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, m.burst); err != nil {
		return Verdict{}, err
	}
	m.leak(now)
	c := m.scale.Cost(cost)
	v := Verdict{Allowed: m.has(c)}
	if v.Allowed {
		m.level = m.level.Add(c)
	}
	m.tell(&v, c)
	return v, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (m *LeakyMeter) StateSize() int { return 24 }

// leak goes on to now, if that is later.
func (m *LeakyMeter) leak(now Time) {
	now = max(now, m.last)
	m.level = m.level.Sub(product(elapsed(m.last, now), m.bucket.fill))
	m.last = now
}

func (m *LeakyMeter) has(cost Ticks) bool { return !m.bucket.size.Less(m.level.Add(cost)) }

// tell fills in what a verdict says beside yes or no.
func (m *LeakyMeter) tell(v *Verdict, cost Ticks) {
	if !v.Allowed {
		v.RetryAfter = takes(m.last, m.level.Add(cost).Sub(m.bucket.size), m.bucket.fill)
	}
	v.Remaining = m.scale.Units(m.bucket.size.Sub(m.level))
	v.Reset = takes(m.last, m.level, m.bucket.fill)
}

// LeakyQueue is the leaky bucket as a queue: requests wait in it and leave at the
// rate, evenly spaced. It delays instead of refusing, until the queue is full. Who is
// allowed waits for [Verdict].Delay; nobody who was allowed can give up.
//
//	Formula: level = max(0, level - rate*(t - last)); passes when level + cost <= capacity, leaves
//	         after level/rate, and adds cost.
//	Bound:   c + rate*(w + 1 ns) leave in any window of length w, where c is the last one's cost.
//	State:   24 bytes: the level, exact, and the latest time. The queue itself is the callers that wait.
//	Source:  Tanenbaum, Computer Networks, "The leaky bucket algorithm"; nginx limit_req.
//
// It takes what a [LeakyMeter] of that capacity takes. The nanosecond of the bound is
// the rounding of the delay. A copy is a limiter of its own.
type LeakyQueue struct{ meter LeakyMeter }

// NewLeakyQueue returns a limiter, empty. The capacity is how many units it holds at
// a time, what is leaving included. The rate must not be zero, the capacity at least 1.
func NewLeakyQueue(rate Rate, capacity int64) (*LeakyQueue, error) {
	m, err := NewLeakyMeter(rate, capacity)
	if err != nil {
		return nil, err
	}
	return &LeakyQueue{*m}, nil
}

// Allow decides on a request of cost units at now; see [Limiter]. Asked with cost 0,
// Delay is how long a request would wait.
func (q *LeakyQueue) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, q.meter.burst); err != nil {
		return Verdict{}, err
	}
	q.meter.leak(now)
	wait := takes(q.meter.last, q.meter.level, q.meter.bucket.fill)
	v, err := q.meter.Allow(now, cost)
	if v.Allowed {
		v.Delay = wait
	}
	return v, err
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (q *LeakyQueue) StateSize() int { return 24 }

// DualLeakyBucket is several leaky buckets that must all admit, none of which is
// charged when another refuses: a peak and a sustained rate, or 5000 per hour and 20
// per second.
//
//	Formula: for every i as [LeakyMeter]; passes when level_i + cost <= burst_i for all i, and adds
//	         cost to all.
//	Bound:   the least of burst_i + rate_i*w in any window of length w.
//	State:   24 bytes for every limit.
//	Source:  ATM Forum TM 4.0, section 4.4.2: peak and sustained cell rate, each with its tolerance.
type DualLeakyBucket struct {
	meters []LeakyMeter
	most   int64
}

// NewDualLeakyBucket returns a limiter, empty. There must be a limit, and of each the
// rate must not be zero and the burst at least 1. The largest cost that can pass is
// the smallest burst.
func NewDualLeakyBucket(limits ...Limit) (*DualLeakyBucket, error) {
	if len(limits) == 0 {
		return nil, errors.New("algo: a dual leaky bucket without a limit: give at least one")
	}
	d := &DualLeakyBucket{most: math.MaxInt64}
	for _, l := range limits {
		m, err := NewLeakyMeter(l.Rate, l.Burst)
		if err != nil {
			return nil, err
		}
		d.meters = append(d.meters, *m)
		d.most = min(d.most, l.Burst)
	}
	return d, nil
}

// Allow decides on a request of cost units at now; see [Limiter].
func (d *DualLeakyBucket) Allow(now Time, cost int64) (Verdict, error) {
	if err := checkCost(cost, d.most); err != nil {
		return Verdict{}, err
	}
	all := Verdict{Allowed: true, Remaining: d.most}
	for i := range d.meters {
		m := &d.meters[i]
		m.leak(now)
		all.Allowed = all.Allowed && m.has(m.scale.Cost(cost))
	}
	for i := range d.meters {
		m := &d.meters[i]
		c := m.scale.Cost(cost)
		v := Verdict{Allowed: m.has(c)}
		if all.Allowed {
			m.level = m.level.Add(c)
		}
		m.tell(&v, c)
		all.RetryAfter = max(all.RetryAfter, v.RetryAfter)
		all.Remaining = min(all.Remaining, v.Remaining)
		all.Reset = max(all.Reset, v.Reset)
	}
	return all, nil
}

// StateSize returns how many bytes of state it keeps beside what it was made with.
func (d *DualLeakyBucket) StateSize() int { return 24 * len(d.meters) }
