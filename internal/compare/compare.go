// Package compare puts the flat algorithms side by side: all of them decide on the same
// arrivals, and what each let through is measured against one promise, burst + rate*w in
// any window of length w.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/result"
)

// Setup is the limit that every algorithm is to keep, as well as it can.
type Setup struct {
	algo.Limit            // what is promised
	Peak       algo.Limit // of the dual leaky bucket, beside it
	Queue      int64      // how many units the leaky bucket as a queue holds
	Unit       string
}

// window is in what time the burst comes back: those that count in windows have the
// burst as their limit, and this as their window, so that their rate is the rate.
func (s Setup) window() time.Duration { return s.Rate.Takes(s.Burst) }

// stated is a limiter that says how much state it keeps.
type stated interface {
	algo.Limiter
	StateSize() int
}

// algorithm is one under its right name.
type algorithm struct {
	flag, name string
	set        func(Setup) string
	make       func(Setup) (stated, error)
}

var algorithms = []algorithm{
	{"token-bucket", "token bucket", burst, func(s Setup) (stated, error) { return algo.NewTokenBucket(s.Rate, s.Burst) }},
	{"gcra", "GCRA", burst, func(s Setup) (stated, error) { return algo.NewGCRA(s.Rate, s.Burst) }},
	{"leaky-meter", "leaky bucket as a meter", burst, func(s Setup) (stated, error) { return algo.NewLeakyMeter(s.Rate, s.Burst) }},
	{"leaky-one", "leaky bucket of capacity 1", func(Setup) string { return "burst 1" },
		func(s Setup) (stated, error) { return algo.NewLeakyMeter(s.Rate, 1) }},
	{"leaky-queue", "leaky bucket as a queue", func(s Setup) string { return fmt.Sprintf("holds %d", s.Queue) },
		func(s Setup) (stated, error) { return algo.NewLeakyQueue(s.Rate, s.Queue) }},
	{"dual-leaky", "dual leaky bucket", func(s Setup) string {
		return fmt.Sprintf("burst %d; %v, burst %d", s.Burst, s.Peak.Rate, s.Peak.Burst)
	}, func(s Setup) (stated, error) { return algo.NewDualLeakyBucket(s.Limit, s.Peak) }},
	{"fixed-window", "fixed window", windowed, func(s Setup) (stated, error) { return algo.NewFixedWindow(s.Burst, s.window()) }},
	{"sliding-log", "sliding log", windowed, func(s Setup) (stated, error) { return algo.NewSlidingLog(s.Burst, s.window()) }},
	{"sliding-counter", "sliding counter", windowed, func(s Setup) (stated, error) { return algo.NewSlidingCounter(s.Burst, s.window()) }},
}

func burst(s Setup) string { return fmt.Sprintf("burst %d", s.Burst) }
func windowed(s Setup) string {
	window := s.window().String()
	for _, zero := range []string{"m0s", "h0m"} { // 30m, not 30m0s
		if strings.HasSuffix(window, zero) {
			window = window[:len(window)-2]
		}
	}
	return fmt.Sprintf("%d in %s", s.Burst, window)
}

// Flags lists the words that name the algorithms on a command line.
func Flags() []string {
	var out []string
	for _, a := range algorithms {
		out = append(out, a.flag)
	}
	return out
}

// Contest is algorithms on their way through the same arrivals.
type Contest struct {
	setup   Setup
	step    time.Duration
	length  time.Duration
	entries []*entrant
	largest int64
	arrived series

	overflow bool // more than an int64 arrived

	low      float64   // the least of what had come before a request, less rate times its time
	envelope []float64 // by step
}

// New makes the named algorithms, all of them if there are no names, for arrivals that
// take so long.
func New(s Setup, names []string, step, length time.Duration) (*Contest, error) {
	scale, err := algo.NewScale(s.Rate)
	if err != nil {
		return nil, err
	}
	line := series{step: step, most: 4*int((length+step-1)/step) + 1}
	c := &Contest{setup: s, step: step, length: length, arrived: line, low: math.Inf(1)}
	for _, a := range algorithms {
		if len(names) > 0 && !slices.Contains(names, a.flag) {
			continue
		}
		l, err := a.make(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		c.entries = append(c.entries, &entrant{algorithm: a, limiter: l, passed: line, worst: worst{scale: scale, bucket: scale.Bucket(s.Rate, s.Burst)}})
	}
	return c, nil
}

// Ask lets every algorithm decide on a request; at never decreases.
func (c *Contest) Ask(at time.Duration, cost int64) {
	if c.overflow = c.overflow || cost > math.MaxInt64-c.arrived.total; c.overflow {
		return
	}
	c.close(int(at / c.step))
	c.low = min(c.low, float64(c.arrived.total)-c.setup.Rate.PerSecond()*at.Seconds())
	c.arrived.add(at, cost)
	c.largest = max(c.largest, cost)
	for _, e := range c.entries {
		e.ask(at, cost)
	}
}

// close works out the envelope of the steps before: the most that can be let through by
// then, of what came, and with any delay, if every window sees at most burst + rate*w.
// It is the least of what came and, over all s, of what came before s + burst + rate*(t-s).
func (c *Contest) close(steps int) {
	for i := len(c.envelope); i < steps; i++ {
		end := (time.Duration(i+1) * c.step).Seconds()
		c.envelope = append(c.envelope, min(float64(c.arrived.total), c.low+float64(c.setup.Burst)+c.setup.Rate.PerSecond()*end))
	}
}

// Result is what was measured; load says what arrived. It is an error if that was more
// than can be counted.
func (c *Contest) Result(load string) (*result.Comparison, error) {
	if c.overflow {
		return nil, errors.New("compare: all that arrives is more than 2^63-1 units: write costs in a larger unit")
	}
	steps := max(int((c.length+c.step-1)/c.step), len(c.arrived.values))
	for _, e := range c.entries {
		steps = max(steps, len(e.passed.values))
	}
	c.close(steps)
	c.arrived.extend(steps)
	out := &result.Comparison{
		Load: load, Unit: c.setup.Unit, Rate: c.setup.Rate.String(), Burst: c.setup.Burst,
		Seconds: c.length.Seconds(), Step: c.step.Seconds(), Wants: c.arrived.total,
		Arrived: c.arrived.values, Promised: c.envelope,
	}
	never := map[string][]string{} // by what they need
	var needs []string
	for _, e := range c.entries {
		e.passed.extend(steps)
		out.Rows = append(out.Rows, result.Flat{
			Flag: e.flag, Name: e.name, Set: e.set(c.setup),
			Accepted: e.passed.total, Rejected: c.arrived.total - e.passed.total,
			Worst: e.worst.result(), Delay: float64(e.delay) / float64(time.Millisecond),
			State: e.state, Series: e.passed.values,
		})
		if n := len(e.passed.values); n > 0 && e.passed.values[n-1] < e.passed.total {
			out.Notes = append(out.Notes, fmt.Sprintf("the series ends after %v, four times what the arrivals take: %d of %d units of the %s leave later", time.Duration(steps)*c.step, e.passed.total-e.passed.values[n-1], e.passed.total, e.name))
		}
		if e.impossible {
			need := e.needs(c.largest)
			if never[need] == nil {
				needs = append(needs, need)
			}
			never[need] = append(never[need], e.name)
		}
	}
	for _, need := range needs {
		out.Notes = append(out.Notes, fmt.Sprintf("requests that cost up to %d are more than can ever pass, and count as rejected: %s, which %s", c.largest, strings.Join(never[need], ", "), need))
	}
	return out, nil
}

// needs says what an algorithm takes for a request of that cost to pass at all.
func (a algorithm) needs(cost int64) string {
	switch {
	case a.flag == "leaky-one":
		return "takes 1 at a time"
	case a.flag == "leaky-queue":
		return fmt.Sprintf("needs --queue %d", cost)
	case a.flag == "dual-leaky" && cost > math.MaxInt64/2: // its peak has half the burst
		return "no burst is enough for"
	case a.flag == "dual-leaky":
		return fmt.Sprintf("needs --burst %d", 2*cost)
	}
	return fmt.Sprintf("needs --burst %d", cost)
}

// entrant is one algorithm of a contest.
type entrant struct {
	algorithm
	limiter    stated
	passed     series
	worst      worst
	delay      time.Duration
	state      int
	impossible bool
}

func (e *entrant) ask(at time.Duration, cost int64) {
	v, err := e.limiter.Allow(algo.Time(at), cost)
	e.impossible = e.impossible || err != nil
	e.state = max(e.state, e.limiter.StateSize())
	if !v.Allowed {
		return
	}
	e.delay = max(e.delay, v.Delay)
	leaves := algo.Time(at).Add(v.Delay)
	e.passed.add(time.Duration(leaves), cost)
	e.worst.pass(leaves, cost)
}

// series adds up, for each step, what came until its end. What comes later than four
// times the arrivals take, out of a long queue, is only in the total.
type series struct {
	step   time.Duration
	most   int
	total  int64
	values []int64
}

func (s *series) add(at time.Duration, v int64) {
	s.total += v
	if n := int(at / s.step); n < s.most {
		s.extend(n + 1)
		s.values[n] += v
	}
}

// extend goes on to so many steps, in which nothing came as yet.
func (s *series) extend(steps int) {
	last := int64(0)
	if n := len(s.values); n > 0 {
		last = s.values[n-1]
	}
	for len(s.values) < steps {
		s.values = append(s.values, last)
	}
}

// worst finds the window in which what passed is furthest above rate*w: as the highest
// level of a leaky bucket without a limit, counted from when it was last empty.
type worst struct {
	scale  algo.Scale
	bucket algo.Bucket
	tat    algo.Ticks
	begin  algo.Time
	units  int64

	level algo.Ticks // the highest
	most  result.Window
}

func (w *worst) pass(at algo.Time, cost int64) {
	if w.bucket.Owed(w.tat, at).IsZero() {
		w.begin, w.units = at, 0
	}
	w.tat = w.bucket.Charge(w.tat, at, w.scale.Cost(cost))
	w.units += cost
	if owed := w.bucket.Owed(w.tat, at); w.level.Less(owed) {
		w.level = owed
		w.most = result.Window{Units: w.units, Seconds: at.Sub(w.begin).Seconds()}
	}
}

func (w *worst) result() result.Window {
	out := w.most
	whole := w.scale.Units(w.level)
	out.Above = float64(whole) + w.level.Sub(w.scale.Cost(whole)).Float()/w.scale.Cost(1).Float()
	out.Broken = w.bucket.Size().Less(w.level)
	return out
}
