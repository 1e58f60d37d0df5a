// Package queue holds what a scheduler of queues is made of: bounded first-in
// first-out queues, a deficit round robin, and a list of those that wait for a time.
// Each can be used by itself; none reads a clock, none is safe for concurrent use.
package queue
