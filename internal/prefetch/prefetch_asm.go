//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line has the line of memory of p fetched, and does not wait for it. Any p will do, nil
// too: it is a hint.
//
//go:noescape
func Line(p unsafe.Pointer)

// Lines does so for five lines, of 64 bytes, from p on.
//
//go:noescape
func Lines(p unsafe.Pointer)
