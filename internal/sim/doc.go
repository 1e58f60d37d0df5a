// Package sim runs a tree under a load or a trace, on virtual time and in one
// goroutine: the same code that decides in production, and the same output for
// the same seed.
//
// Beside what happened it works out what should have: in every step the demands
// of the step and the tokens saved so far go to package fair, and what that gives
// each class is its `fair`. So anyone can see how far from ideal a tree is.
//
// Under a template the children with the largest wants have rows of their own, the
// rest share one. Ten times as many are watched as there are rows: a child that has
// wanted more than the least of them takes its place, and what that one did stays in
// the row of the rest. So memory grows with the children alive at once and with the
// number of steps, not with the names seen; with many more names than are watched, a
// child's row tells of it from when it was first among them.
//
// [Live] runs several gateways instead, under the same arrivals but in real time, since
// what they share through a server takes real time to settle.
package sim
