// Package sluice runs trees of classes in real time: [Now] is the clock that decisions
// of a tree take as their time, and a [Shaper] delays instead of rejecting. Everything
// else takes the time as an argument; see package htb for the model and package config
// for the files.
package sluice

import (
	"time"

	"github.com/go-sluice/sluice/htb"
)

var start = time.Now()

// Now returns the time since the program began, on the monotonic clock: what
// decisions of a tree that runs in real time take as their time. It is cheaper
// than time.Now and never goes backwards.
func Now() htb.Time { return htb.Time(time.Since(start)) }
