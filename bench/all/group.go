package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/go-sluice/sluice/bench/internal/rig"
)

// group is a table: contenders that do the same, measured in turn.
type group struct {
	figure     string // of the issue
	name       string // what -only matches, with figure
	title      string
	cores      int      // GOMAXPROCS of the contenders
	columns    []string // of figures, as printed
	first      string   // the column that ratios are of
	ours       string   // the contender that ratios are to; "" for no ratios
	contenders []contender
	targets    []target
	turns      int     // into which a round is divided
	apart      bool    // a process for each round, one at a time
	cold       bool    // no turn to warm up
	once       bool    // one round only
	long       bool    // not with -short
	memory     float64 // that has to be free, in bytes
}

// contender is one limiter in one setting. It lives in a process of its own, so that no
// garbage of another is collected at its expense.
type contender struct {
	name string
	make func(o options) (trial, error)
}

// trial is a contender, ready to be measured.
type trial struct {
	round func() (figures, error)
	check func() error // what was meant to happen did; nil: nothing to check
}

// figures are what a round found, by column.
type figures map[string]float64

// options are those of the command line that contenders see.
type options struct {
	short  bool
	dir    string // for files
	htbsim string // the program
}

// pick returns the full size of something, or the one for -short.
func pick[T any](o options, full, short T) T {
	if o.short {
		return short
	}
	return full
}

// target is a figure to be met: that of a contender, over the least of some others if any
// are named, is at most so much.
type target struct {
	what   string
	of     string
	column string
	than   []string
	most   float64
	aim    float64 // 0: none
}

// turn is how long a turn of a timed contender lasts, about.
const turn = 20 * time.Millisecond

// loop makes n decisions and returns how many were allowed.
type loop func(n int) (allowed int)

// counted returns what makes n decisions in each of some loops at once, and measures
// that. Each decision must be allowed, or each refused.
func counted(want bool, loops ...loop) func(n int) (figures, error) {
	return func(n int) (figures, error) {
		var before, after runtime.MemStats
		allowed := make(chan int, len(loops))
		runtime.ReadMemStats(&before)
		cpu, start := rig.CPU(), time.Now()
		for _, l := range loops[1:] {
			go func() { allowed <- l(n) }()
		}
		allowed <- loops[0](n)
		sum := 0
		for range loops {
			sum += <-allowed
		}
		wall, used := time.Since(start), rig.CPU()-cpu
		runtime.ReadMemStats(&after)
		all := n * len(loops)
		if expected := map[bool]int{true: all, false: 0}[want]; sum != expected {
			return nil, fmt.Errorf("%d of %d decisions were allowed, not %d", sum, all, expected)
		}
		f := figures{"ns": per(used, all), "CPU ns": per(used, all), "wall ns": per(wall, all)}
		if len(loops) > 1 {
			f["ns"] = f["wall ns"] // two at once: what counts is when both are done
		}
		f["allocs"] = math.Floor(100*float64(after.Mallocs-before.Mallocs)/float64(all)) / 100
		f["B"] = math.Floor(float64(after.TotalAlloc-before.TotalAlloc) / float64(all))
		return f, nil
	}
}

// timed returns a trial whose turns take as long as turn says.
func timed(want bool, loops ...loop) trial {
	run := counted(want, loops...)
	n := 0
	return trial{round: func() (figures, error) {
		if n == 0 {
			for n = 1000; ; n *= 2 { // warm up, and find how many fit
				cpu := rig.CPU()
				if _, err := run(n); err != nil {
					return nil, err
				}
				if rig.CPU()-cpu > turn {
					break
				}
			}
		}
		return run(n)
	}}
}

func per(d time.Duration, n int) float64 { return float64(d) / float64(n) }

var errUnknown = errors.New("no such contender")

// find returns the contender of a path group/contender.
func find(path string) (contender, error) {
	for _, g := range groups() {
		if rest, ok := strings.CutPrefix(path, g.name+"/"); ok {
			for _, c := range g.contenders {
				if c.name == rest {
					return c, nil
				}
			}
		}
	}
	return contender{}, fmt.Errorf("%s: %w", path, errUnknown)
}

func groups() []group {
	var all []group
	for _, of := range [][]group{flatGroups(), coresGroups(), namedGroups(), liveGroups(), shaperGroups(), simGroups()} {
		all = append(all, of...)
	}
	return all
}
