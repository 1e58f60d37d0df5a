package monotonic

import "time"

var start = time.Now()

// System returns the time by the system's clock, in nanoseconds since the program began.
func System() int64 { return int64(time.Since(start)) }
