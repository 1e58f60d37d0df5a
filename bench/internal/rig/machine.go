// Package rig is what the benchmarks have in common: the machine they ran on, clocks,
// names and trees.
package rig

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine names the processor, the cores and the version of Go.
func Machine() string {
	name := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if value, ok := field(text, "model name"); ok {
			name = value
		}
	}
	return fmt.Sprintf("%s, %s/%s; %d cores, GOMAXPROCS %d; %s", name, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.Version())
}

func field(text []byte, name string) (string, bool) {
	for line := range bytes.Lines(text) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// Available returns how many bytes of memory are free to use; ok is false where the
// system does not say.
func Available() (n float64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	value, ok := field(text, "MemAvailable")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	return kb * 1024, ok && err == nil
}

// Versions lists the modules with such paths that the program was built with.
func Versions(paths ...string) (out []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		if slices.Contains(paths, m.Path) {
			out = append(out, m.Path+" "+m.Version)
		}
	}
	return out
}

// CPU returns the time for which this process has had a core. Where others use the
// machine too it says more than the time that has passed.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Median returns the middle of values, the upper of the two where there are two.
func Median[T cmp.Ordered](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// Must stops the program where a benchmark cannot be set up.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check is Must for calls that return nothing else.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}
