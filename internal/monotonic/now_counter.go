//go:build linux && amd64

package monotonic

import (
	"math/bits"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Now returns the time in nanoseconds since the program began. To a goroutine it does not
// go backwards.
func Now() int64 {
	if a := current.Load(); a != nil {
		if passed := counter() - a.count; passed < a.lasts {
			ns, _ := bits.Mul64(passed, a.speed)
			return a.at + int64(ns)
		}
	}
	return look()
}

var (
	current atomic.Pointer[anchor] // nil while there is none to count from
	counts  atomic.Bool            // the counter tells the time
	mu      sync.Mutex             // guards state
	state   keeper
	floor   atomic.Int64 // state's; 0: none
)

func init() { counts.Store(countable()) }

// counter reads the processor's time stamp counter.
func counter() uint64

// look is Now where there is no anchor, or an old one.
func look() int64 {
	if !counts.Load() {
		return system()
	}
	if !mu.TryLock() { // somebody looks
		if a := current.Load(); a != nil {
			if now, ok := a.late(counter()); ok {
				return now
			}
		}
		return system()
	}
	defer mu.Unlock()
	now := state.look(counter, System)
	for range mostTries { // others go on by the old anchor, at its speed: so the new one is not to be old itself
		if a := state.anchor; a == nil || counter()-a.count < a.lasts/1024 {
			break
		}
		now = state.look(counter, System)
	}
	floor.Store(state.floor)
	if current.Store(state.anchor); state.broken > mostBroken {
		counts.Store(false)
	}
	return now
}

// system returns the system's time, or what Now said later than that.
func system() int64 {
	now := System()
	if at := floor.Load(); at != 0 && at > now { // in a bubble, now is long before the program began
		return at
	}
	return now
}

// countable reports whether the counter may tell the time: where Linux has it do so, it counts
// evenly, and alike on all cores.
func countable() bool {
	clock, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return !testing.Testing() && err == nil && strings.TrimSpace(string(clock)) == "tsc"
}
