package monotonic

import (
	"math"
	"math/bits"
)

// anchor is a reading of both clocks, from which Now counts on. It does not change.
type anchor struct {
	count uint64 // of the counter
	at    int64  // what Now says then
	speed uint64 // nanoseconds for a count, in 2^-64: a count is less than a nanosecond
	lasts uint64 // counts
}

const (
	lasts      = 4e6  // ns that an anchor does
	late       = 4    // as many times that it is good for while somebody looks for the next
	calibrates = 1e7  // ns over which the counter's speed is measured, twice, before it is used
	remeasures = 1e8  // and later on
	mostPart   = 1e-3 // two measurements part by less than that, of a counter that is even
	mostAhead  = 1e6  // ns that Now is over the system's clock, of such a counter
	mostBroken = 3    // as often may it not be
	slowest    = .5   // that Now goes, of the true speed, while it is ahead
	quick      = 4    // times the fastest pair of readings so far: no interrupt was between them
	mostTries  = 5
)

// late returns the time by an anchor that should be replaced.
func (a *anchor) late(count uint64) (int64, bool) {
	passed := count - a.count
	ns, _ := bits.Mul64(passed, a.speed)
	return a.at + int64(ns), passed < late*a.lasts
}

// keeper finds anchors. Only one goroutine at a time may use it.
type keeper struct {
	anchor *anchor // nil while the counter is measured

	count  uint64 // at a reading
	system int64
	begun  bool
	last   float64 // nanoseconds for a count, as measured until then; 0: not yet
	rate   float64 // the same, if the measurement before agrees; 0: not yet

	fastest uint64 // counts between two readings
	floor   int64  // what Now said at most before it was given up
	broken  int
}

// look reads both clocks and returns the time.
func (k *keeper) look(counter func() uint64, system func() int64) int64 {
	var count uint64
	var now int64
	least := uint64(math.MaxUint64)
	for range mostTries {
		before := counter()
		at := system()
		took := counter() - before
		if took < least {
			least, count, now = took, before+took/2, at
		}
		if k.rate > 0 && took <= quick*k.fastest {
			break
		}
	}
	if k.fastest == 0 || least < k.fastest {
		k.fastest = least
	}
	if least > quick*k.fastest { // a busy machine: the time is right, but not which count it belongs to
		k.fastest *= 2
		if a := k.anchor; a != nil {
			if is, ok := a.late(count); ok {
				return max(now, is)
			}
		}
		return max(now, k.floor)
	}
	return k.read(count, now)
}

// read takes in a reading of both clocks, and returns what Now says then.
func (k *keeper) read(count uint64, now int64) int64 {
	at, slower := now, 1.
	if a := k.anchor; a != nil {
		if is, ok := a.late(count); ok && is > now {
			if k.floor = is; is-now > mostAhead {
				return k.restart(count, now)
			}
			at, slower = is, max(slowest, 1-float64(is-now)/lasts)
		}
	}
	passed := now - k.system
	switch {
	case !k.begun:
		return k.restart(count, now)
	case k.rate == 0 && passed < calibrates:
		return max(now, k.floor)
	case k.rate == 0 || passed >= remeasures:
		rate, last := float64(passed)/float64(count-k.count), k.last
		k.last, k.count, k.system = rate, count, now
		if last == 0 {
			return max(now, k.floor)
		}
		if rate >= 1 || math.Abs(rate/last-1) > mostPart {
			return k.restart(count, now)
		}
		k.rate = rate
	}
	k.anchor = &anchor{count: count, at: at, speed: uint64(k.rate * slower * (1 << 64)), lasts: uint64(lasts / k.rate)}
	return at
}

// restart measures anew a counter that is not yet known, or has not kept what it was known for.
func (k *keeper) restart(count uint64, now int64) int64 {
	if k.begun {
		k.broken++
	}
	k.begun, k.count, k.system, k.last, k.rate, k.anchor = true, count, now, 0, 0, nil
	return max(now, k.floor)
}
