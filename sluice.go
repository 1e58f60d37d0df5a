// Package sluice runs trees of classes in real time: [Now] is the clock that decisions
// of a tree take as their time, and a [Shaper] delays instead of rejecting. Everything
// else takes the time as an argument; see package htb for the model and package config
// for the files.
package sluice

import (
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/monotonic"
)

// Now returns the time since the program began, on the monotonic clock: what
// decisions of a tree that runs in real time take as their time. It is cheaper than
// time.Now, and to a goroutine it does not go backwards.
//
// Where Linux tells the time by the processor's time stamp counter (amd64), so does Now,
// counting on for some milliseconds from a reading of the system's clock. Elsewhere, and in tests, also those in a bubble of
// testing/synctest, it is the system's clock alone. Who would rather have that passes
// htb.Time(time.Since(start)) instead, with a start of their own.
func Now() htb.Time { return htb.Time(monotonic.Now()) }
