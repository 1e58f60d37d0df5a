//go:build !linux

package sluice

import "time"

// napping is false where a nap is no more exact than a timer.
const napping = false

func nap(time.Duration) {}
