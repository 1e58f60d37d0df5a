// Package monotonic reads the time, in nanoseconds since the program began, for less than
// what a reading of the system's clock takes.
//
// Where Linux itself tells the time by the processor's time stamp counter, Now does so,
// too: it counts on from an anchor, a reading of both clocks, for 4 ms, and then takes a new
// one. So it is never further from the system's clock than the two part in that time. It
// does not go backwards: where it was ahead of the system's clock at an anchor it goes slower
// until the next. Elsewhere, and in tests, where time may be that of testing/synctest, Now is
// the system's clock.
package monotonic
