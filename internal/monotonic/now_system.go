//go:build !linux || !amd64

package monotonic

// Now returns the time in nanoseconds since the program began. To a goroutine it does not
// go backwards.
func Now() int64 { return System() }
