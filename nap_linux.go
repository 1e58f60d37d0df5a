package sluice

import (
	"syscall"
	"time"
)

// napping says that nap is more exact than a timer, which the runtime rounds up to a
// millisecond when nothing else runs.
const napping = true

// nap sleeps for a short time, to within some 50 microseconds, at the price of a
// thread that is blocked meanwhile.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // woken early, the caller looks at the time
}
