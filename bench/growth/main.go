// Growth measures how the cost of a decision grows, and draws it: with the depth of the
// tree, the children of a class, the goroutines that decide at once, and the leaves that
// are live.
//
//	go run ./growth                       # prints the curves, draws ../docs/growth.svg
//	go run ./growth -o growth.png -max 1e6
//
// Each point is the median of six rounds. A round has five turns, in each of which every
// point of every curve of a panel is measured for 20 ms, beginning with another one. The cost is
// the time of the processor that one goroutine takes for a decision, reading the clock
// included; with several goroutines what passes, over the decisions of all, and of a round
// the best turn, as others may use the cores too. All the trees of a panel are there at once: the largest panel needs about 10 GB for ten million leaves,
// and leaves out what does not fit.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-sluice/sluice/bench/internal/rig"
)

// panel is one part of the picture.
type panel struct {
	title, x string
	log      bool // the x axis
	logCost  bool // the y axis
	cores    int
	curves   []*curve
}

type curve struct {
	name string
	at   []*point
}

// point is a setting of which the cost is measured.
type point struct {
	x      float64
	loops  []func(n int) (allowed int) // one for each goroutine
	want   bool                        // whether all are allowed, or all refused
	n      int                         // decisions in a turn
	rounds []float64
	ns     float64
}

func (c *curve) add(x float64, want bool, loops ...func(n int) int) {
	c.at = append(c.at, &point{x: x, want: want, loops: loops})
}

const (
	turn  = 20 * time.Millisecond
	turns = 5 // a round
)

func main() {
	rounds := flag.Int("rounds", 6, "how many rounds the medians are of")
	out := flag.String("o", "../docs/growth.svg", "the picture, .svg or .png")
	most := flag.Float64("max", 1e7, "the most live leaves")
	flag.Parse()
	if *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "growth: -rounds is positive, and there are no arguments")
		os.Exit(2)
	}
	if err := run(os.Stdout, *rounds, int(*most), *out); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, rounds, most int, out string) error {
	fmt.Fprintln(w, rig.Machine())
	fmt.Fprintf(w, "ns for a decision, medians of %d rounds in turn.\n", rounds)
	var all []*panel
	for _, build := range []func() *panel{depth, children, goroutines, func() *panel { return liveLeaves(most) }} {
		p := build()
		if err := p.measure(rounds); err != nil {
			return err
		}
		p.print(w)
		for _, c := range p.curves {
			for _, x := range c.at {
				x.loops = nil
			}
		}
		runtime.GC()
		all = append(all, p)
	}
	return draw(all, out)
}

func (p *panel) measure(rounds int) error {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing is allocated from here on
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(p.cores))
	var all []*point
	for _, c := range p.curves {
		all = append(all, c.at...)
	}
	for _, x := range all {
		for x.n = 2000; ; x.n *= 2 { // warm up, and find how many fit
			cpu := rig.CPU()
			if _, err := x.run(); err != nil {
				return fmt.Errorf("%s: %v: %w", p.title, x.x, err)
			}
			if rig.CPU()-cpu > turn {
				break
			}
		}
	}
	for r := range rounds {
		for t := range turns {
			for k := range all {
				x := all[(k+(r*turns+t)*7)%len(all)]
				ns, err := x.run()
				if err != nil {
					return fmt.Errorf("%s: %v: %w", p.title, x.x, err)
				}
				switch {
				case t == 0:
					x.rounds = append(x.rounds, ns)
				case len(x.loops) > 1:
					x.rounds[r] = min(x.rounds[r], ns)
				default: // the mean
					x.rounds[r] += (ns - x.rounds[r]) / float64(t+1)
				}
			}
		}
	}
	for _, x := range all {
		x.ns = rig.Median(x.rounds)
	}
	return nil
}

// run makes n decisions in all, and returns what one takes.
func (x *point) run() (ns float64, err error) {
	each := max(1, x.n/len(x.loops))
	allowed := make([]int, len(x.loops))
	cpu, start := rig.CPU(), time.Now()
	var took time.Duration
	if len(x.loops) == 1 {
		allowed[0] = x.loops[0](each)
		took = rig.CPU() - cpu
	} else {
		var wg sync.WaitGroup
		for i, l := range x.loops {
			wg.Go(func() { allowed[i] = l(each) })
		}
		wg.Wait()
		took = time.Since(start)
	}
	for _, n := range allowed {
		if x.want != (n == each) || !x.want && n > 0 {
			return 0, fmt.Errorf("%d of %d decisions were allowed", n, each)
		}
	}
	return float64(took) / float64(each*len(x.loops)), nil
}

func (p *panel) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", p.title)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "%s\t", p.x)
	for _, x := range p.curves[0].at {
		fmt.Fprintf(tab, "%.0f\t", x.x)
	}
	fmt.Fprintln(tab)
	for _, c := range p.curves {
		fmt.Fprintf(tab, "%s\t", c.name)
		for _, x := range c.at {
			fmt.Fprintf(tab, "%.0f\t", x.ns)
		}
		fmt.Fprintln(tab)
	}
	tab.Flush()
}
