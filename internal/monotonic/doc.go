// Package monotonic reads the time, in nanoseconds since the program began, for less than
// what a reading of the system's clock takes.
//
// Where Linux itself tells the time by the processor's time stamp counter, Now does so,
// too: it counts on from an anchor, a reading of both clocks, for 4 ms (16 while a new one is
// sought), and then takes a new one. So it is no further from the system's clock than the two
// part in that time, and than a reading is exact, some 0.1 us. Where it was ahead of the
// system's clock at an anchor it goes slower until the next, so that it does not go backwards.
// A counter that jumps is noticed at the next anchor; until it has been measured anew, twice,
// Now is the system's clock. So it is elsewhere, and in tests, where time may be that of
// testing/synctest.
package monotonic
