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
	calibrates = 1e7  // ns that the counter is watched for before it is used
	remeasures = 1e8  // ns after which its speed is measured again
	mostPart   = 1e-3 // two measurements part by less than that, of a counter that is even
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
	rate   float64 // nanoseconds for a count since then, or before; 0: not known

	fastest uint64 // counts between two readings
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
		return now
	}
	return k.read(count, now)
}

// read takes in a reading of both clocks, and returns what Now says then.
func (k *keeper) read(count uint64, now int64) int64 {
	passed := float64(count - k.count)
	switch {
	case !k.begun || count < k.count:
		k.restart(count, now)
		return now
	case k.rate == 0 && now-k.system < calibrates:
		return now
	case k.rate == 0 || now-k.system >= remeasures:
		rate := float64(now-k.system) / passed
		if rate >= 1 || k.rate > 0 && math.Abs(rate/k.rate-1) > mostPart {
			k.broken++
			k.restart(count, now)
			return now
		}
		k.rate, k.count, k.system = rate, count, now
	}
	at, speed := now, k.rate
	if a := k.anchor; a != nil {
		if is, ok := a.late(count); ok && is > now {
			at = is
			speed *= max(slowest, 1-float64(is-now)/lasts)
		}
	}
	k.anchor = &anchor{count: count, at: at, speed: uint64(speed * (1 << 64)), lasts: uint64(lasts / k.rate)}
	return at
}

func (k *keeper) restart(count uint64, now int64) {
	k.begun, k.count, k.system, k.rate, k.anchor = true, count, now, 0, nil
}
