// Borrow measures side by side how several schemes share what a class has to lend among its
// children, when there is no queue: every request passes or is refused at once. The scheme
// sluice is a tree of package htb, the others are models.
//
//	go run ./borrow            # one line for each scheme
//	go run ./borrow -v         # and one for each trial
//	go run ./borrow -seed 8    # with other random numbers
//	go run ./borrow -reserve   # what a class that lends is to keep back
//
// All but the time per decision comes out the same on every run with a seed.
package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var seed = flag.Uint64("seed", 7, "of the random numbers")

func random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(stream, *seed)) }

func main() {
	verbose := flag.Bool("v", false, "print every trial")
	only := flag.String("only", "", "measure the schemes with such a prefix only, separated by commas")
	lending := flag.Bool("reserve", false, "measure what a class that lends is to keep back")
	timing := flag.Bool("time", true, "measure the time per decision")
	flag.Parse()
	if *lending {
		reserve(os.Stdout)
		return
	}
	chosen := slices.DeleteFunc(slices.Clone(schemes), func(s scheme) bool {
		return !slices.ContainsFunc(strings.Split(*only, ","), func(p string) bool { return strings.HasPrefix(s.name, p) })
	})
	r := report{os.Stdout, chosen, fairTrials(), measureAll(chosen)}
	if *timing {
		for i, s := range chosen {
			r.found[i].time(s)
		}
	}
	r.fairness()
	r.moments()
	if *verbose {
		r.eachTrial()
	}
}

// figures is what was found for one scheme.
type figures struct {
	trials  []outcome
	ratios  []float64 // by retrierCounts
	gap     float64
	rare    []float64    // by rareCosts
	wake    [][2]float64 // by joiners
	perCall []float64    // by timed
	longest float64
}

var (
	retrierCounts = []int{2, 10, 100}
	rareCosts     = [][2]int{{1, 1}, {1, 20}, {40, 40}}
	joiners       = []int{1, 9, 99}
	timed         = []int{10, 1000, 100_000}
)

func measureAll(chosen []scheme) []figures {
	all := make([]figures, len(chosen))
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				all[i] = measure(chosen[i])
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wg.Wait()
	return all
}

func measure(s scheme) (f figures) {
	for i, t := range fairTrials() {
		f.trials = append(f.trials, t.run(s, uint64(i)))
	}
	for _, n := range retrierCounts {
		f.ratios = append(f.ratios, retriers(s, n))
	}
	f.gap = crowd(s, 1000)
	for _, r := range rareCosts {
		f.rare = append(f.rare, rare(s, r[0], r[1]))
	}
	for _, k := range joiners {
		join, leave := wakeUp(s, k)
		f.wake = append(f.wake, [2]float64{join, leave})
	}
	return f
}

func (f *figures) time(s scheme) {
	for _, n := range timed {
		ns, longest := perDecision(s, n)
		f.perCall = append(f.perCall, ns)
		f.longest = longest
	}
}

// perDecision is how long a decision takes among n children, half of which are the loud one's,
// in ns: the median of five; and the longest, of which the least of five, for the machine's
// own pauses are not the scheme's.
func perDecision(s scheme, n int) (ns, longest float64) {
	capacity := 10 * float64(n)
	rng := random(9)
	who := make([]int, max(100_000, 5*n))
	for i := 0; i < len(who); i += 2 {
		who[i] = rng.IntN(n)
	}
	p, now := s.make(newPool(capacity, equal(n))), 0.0
	ask := func(child int) {
		now += 1 / (2 * capacity)
		p.allow(now, child, 1)
	}
	for _, i := range who { // warm
		ask(i)
	}
	var times, most []float64
	for range 5 {
		start := time.Now()
		for _, i := range who {
			ask(i)
		}
		times = append(times, float64(time.Since(start))/float64(len(who)))
		worst := time.Duration(0)
		for _, i := range who {
			start := time.Now()
			ask(i)
			worst = max(worst, time.Since(start))
		}
		most = append(most, float64(worst))
	}
	slices.Sort(times)
	return times[2], slices.Min(most)
}
