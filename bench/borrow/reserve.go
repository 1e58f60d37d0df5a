package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A keeper says how much of the root's tokens is not to be lent, of children that are promised
// guarantee each and may save up a second of it.
type keeper struct {
	name string
	keep func(own [2]float64, sent float64) float64 // sent: the level of the second bucket
}

const (
	guarantee = 450.0
	saved     = guarantee // 1 s
	rootRate  = 1000.0
	headroom  = depth * rootRate
	rootBurst = 2*saved + headroom
)

var keepers = []keeper{
	{"sum of bursts", func([2]float64, float64) float64 { return 2 * saved }},
	{"one more bucket", func(_ [2]float64, sent float64) float64 { return sent }},
	{"sum of what they hold", func(own [2]float64, _ float64) float64 { return own[0] + own[1] }},
}

// lent is what passed in one second, and what could not.
type lent struct {
	busy, waking float64 // units of the child that always asks, and of the one that wakes up
	spilt        float64 // tokens that the full root could not take: lost for good
	idle         float64 // tokens at the end of the second that nobody has a claim to
	short        float64 // promised units that the root could not give
}

// A waker is what the other child does, which sleeps for the first 5 s.
type waker int

const (
	bursts waker = iota
	stays
	turns
)

var wakers = []string{
	"The other wakes up every 5 s and sleeps again as soon as it has spent what it saved.",
	"The other wakes up at 5 s and stays, with a ceil of its own.",
	"The other sleeps for 5 s and asks for 5 s in turn, with a ceil of its own.",
}

// lend has one child ask all the time, beside such another.
func lend(k keeper, does waker, seconds int) []lent {
	const step = 1e-4
	var (
		per         = make([]lent, seconds)
		root        = rootBurst
		own         = [2]float64{saved, saved}
		sent        = 2 * saved
		ceil        = [2]float64{headroom, headroom}
		awake       = [2]bool{true, false}
		stepsPerSec = int(1 / step)
	)
	for i := range seconds * stepsPerSec {
		now := &per[i/stepsPerSec]
		root += rootRate * step
		now.spilt += max(0, root-rootBurst)
		root = min(root, rootBurst)
		sent = min(sent+2*guarantee*step, 2*saved)
		for c := range own {
			own[c] = min(own[c]+guarantee*step, saved)
			ceil[c] = min(ceil[c]+rootRate*step, headroom)
		}
		if i > 0 && i%(5*stepsPerSec) == 0 {
			awake[1] = does != turns || !awake[1]
		}
		for j := range own {
			c := (i + j) % 2
			for awake[c] {
				free := c == 1 && does == bursts // its burst is not held up
				switch {
				case own[c] >= 1 && (free || ceil[c] >= 1):
					if root < 1 {
						now.short++
					}
					own[c]--
					sent--
				case own[c] < 1 && !free && ceil[c] >= 1 && root >= 1+k.keep(own, sent):
				default:
					awake[c] = !free
					goto next
				}
				root--
				ceil[c]--
				if c == 0 {
					now.busy++
				} else {
					now.waking++
				}
			}
		next:
		}
		now.idle = root - own[0] - own[1]
	}
	return per
}

func reserve(out io.Writer) {
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "Root %g/s, burst %g. Two children are promised %g/s each and may save up %g. One always asks, with a ceil of %g/s.\n", rootRate, rootBurst, guarantee, saved, rootRate)
	for does, line := range wakers {
		fmt.Fprintf(out, "\n%s\n\n", line)
		fmt.Fprint(tab, "kept back\t\t")
		const show = 11
		for s := range show {
			fmt.Fprintf(tab, "%d s\t", s+3)
		}
		fmt.Fprintln(tab, "sum of 5-35 s\t")
		for _, k := range keepers {
			per := lend(k, waker(does), 35)
			for _, row := range []struct {
				name string
				of   func(lent) float64
			}{
				{"all", func(l lent) float64 { return l.busy + l.waking }},
				{"busy", func(l lent) float64 { return l.busy }},
				{"spilt", func(l lent) float64 { return l.spilt }},
				{"idle tokens", func(l lent) float64 { return l.idle }},
				{"promise broken", func(l lent) float64 { return l.short }},
			} {
				total := 0.0
				for _, l := range per[5:] {
					total += row.of(l)
				}
				fmt.Fprintf(tab, "%s\t%s\t", k.name, row.name)
				for s := range show {
					fmt.Fprintf(tab, "%.0f\t", row.of(per[s+3]))
				}
				if row.name == "idle tokens" {
					fmt.Fprintln(tab, "\t")
				} else {
					fmt.Fprintf(tab, "%.0f\t\n", total)
				}
			}
		}
		tab.Flush()
	}
}
