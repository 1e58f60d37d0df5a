// Package queue holds what a scheduler of queues is made of: a deficit round robin, an
// agenda of what comes next, a list of those that wait for a time, and counts of how long
// they did. Each can be used by itself; none reads a clock, none is safe for concurrent use.
package queue
