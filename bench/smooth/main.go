// Smooth measures in real time how evenly Sluice's shaper, golang.org/x/time/rate and
// go.uber.org/ratelimit let go of many waiters, and how exactly they keep their rate.
//
//	go run ./smooth -d 3s -rounds 3
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

const (
	spaced  = 1_000                  // up to this rate one goes at a time; above, 10 ms of it may go together
	warm    = 300 * time.Millisecond // what the limiters had saved up is not measured
	window  = 10 * time.Millisecond
	maxLate = 10 * time.Millisecond // what Sluice makes up for, see sluice.Shaper
)

var rates = []int{100, 1_000, 10_000, 100_000}

// burst is how many may go at once at a rate of perSecond.
func burst(perSecond int) int {
	if perSecond <= spaced {
		return 1
	}
	return int(int64(perSecond) * int64(window) / int64(time.Second))
}

// limiter is one that is measured. Its wait returns false when there is to be no more.
type limiter struct {
	wait func(context.Context) bool
	stop func() (late time.Duration)
}

type contender struct {
	name string
	make func(perSecond, waiters int) (limiter, error)
}

var contenders = []contender{
	{"sluice", newSluice},
	{"x/time", func(perSecond, _ int) (limiter, error) {
		l := rate.NewLimiter(rate.Limit(perSecond), burst(perSecond))
		return limiter{wait: func(ctx context.Context) bool { return l.Wait(ctx) == nil }}, nil
	}},
	{"uber", func(perSecond, _ int) (limiter, error) {
		var o []ratelimit.Option
		if perSecond <= spaced {
			o = append(o, ratelimit.WithoutSlack)
		}
		l := ratelimit.New(perSecond, o...)
		return limiter{wait: func(context.Context) bool { l.Take(); return true }}, nil
	}},
}

func newSluice(perSecond, waiters int) (limiter, error) {
	r, b := algo.PerSecond(int64(perSecond)), int64(burst(perSecond))
	leaf := htb.Spec{Name: "a", Rate: r, Limit: waiters}
	if perSecond > spaced {
		leaf.Burst, leaf.CBurst = b, b
	}
	s, err := sluice.NewShaper(htb.Spec{Rate: r, Burst: b, CBurst: b, Children: []htb.Spec{leaf}}, sluice.ShaperOptions{})
	if err != nil {
		return limiter{}, err
	}
	return limiter{
		wait: func(ctx context.Context) bool { _, err := s.Wait(ctx, 1, "a"); return err == nil },
		stop: func() time.Duration { late := s.Stats().Late; s.Close(); return late },
	}, nil
}

// result is what one measurement, or the median of several, found.
type result struct {
	rate     float64       // achieved, per second
	p50, p99 time.Duration // of how far the gaps are from 1/rate
	most     int           // in any window
	late     time.Duration
}

func (r result) off(perSecond int) float64 { return (r.rate/float64(perSecond) - 1) * 100 }

// measure has the waiters wait for d, over and over, and sees when they are let go.
func measure(c contender, perSecond, waiters int, d time.Duration) (result, error) {
	l, err := c.make(perSecond, waiters)
	if err != nil {
		return result{}, err
	}
	released := make([][]time.Duration, waiters)
	share := 3*int((warm+d).Seconds()*float64(perSecond))/waiters + 100
	for i := range released {
		released[i] = make([]time.Duration, 0, share)
	}
	runtime.GC()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := warm + d
	start := time.Now()
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			mine := released[i]
			for l.wait(ctx) {
				at := time.Since(start)
				if at > end {
					break
				}
				mine = append(mine, at)
			}
			released[i] = mine
		})
	}
	time.Sleep(time.Until(start.Add(end)))
	var late time.Duration
	if l.stop != nil {
		late = l.stop()
	}
	cancel()
	wg.Wait()
	all := slices.Concat(released...)
	slices.Sort(all)
	from, _ := slices.BinarySearch(all, warm)
	r := evaluate(all[from:], perSecond)
	r.late = late
	return r, nil
}

func evaluate(at []time.Duration, perSecond int) (r result) {
	if len(at) < 2 {
		return r
	}
	r.rate = float64(len(at)-1) / (at[len(at)-1] - at[0]).Seconds()
	even := time.Second / time.Duration(perSecond)
	off := make([]time.Duration, len(at)-1)
	for i := range off {
		off[i] = (at[i+1] - at[i] - even).Abs()
	}
	slices.Sort(off)
	r.p50, r.p99 = quantile(off, 0.50), quantile(off, 0.99)
	first := 0
	for i := range at {
		for at[i]-at[first] > window {
			first++
		}
		r.most = max(r.most, i-first+1)
	}
	return r
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// middle is the median of each figure by itself, but the largest of most and late.
func middle(rounds []result) result {
	return result{
		rate: median(rounds, func(r result) float64 { return r.rate }),
		p50:  median(rounds, func(r result) time.Duration { return r.p50 }),
		p99:  median(rounds, func(r result) time.Duration { return r.p99 }),
		most: slices.MaxFunc(rounds, func(a, b result) int { return cmp.Compare(a.most, b.most) }).most,
		late: slices.MaxFunc(rounds, func(a, b result) int { return cmp.Compare(a.late, b.late) }).late,
	}
}

func median[T cmp.Ordered](rounds []result, of func(result) T) T {
	all := make([]T, len(rounds))
	for i, r := range rounds {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// holds is what a window of Sluice holds at most.
func holds(perSecond int) int {
	return burst(perSecond) + int(float64(perSecond)*(window+maxLate).Seconds())
}

func main() {
	d := flag.Duration("d", 3*time.Second, "how long each measurement takes, after a warm-up of 0.3 s")
	rounds := flag.Int("rounds", 3, "how many measurements the medians are of")
	waiters := flag.Int("waiters", 64, "how many goroutines wait")
	busy := flag.Int("busy", 1000, "how many goroutines wait at 100000/s, if more than -waiters")
	each := flag.Bool("each", false, "print every measurement as it is made")
	flag.Parse()
	if *d <= 0 || *rounds < 1 || *waiters < 1 {
		fmt.Fprintln(os.Stderr, "smooth: -d, -rounds and -waiters are positive")
		os.Exit(2)
	}
	if err := run(os.Stdout, *d, *rounds, *waiters, *busy, *each); err != nil {
		fmt.Fprintln(os.Stderr, "smooth:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, d time.Duration, rounds, waiters, busy int, each bool) error {
	fmt.Fprintln(out, setting())
	fmt.Fprintf(out, "Medians of %d rounds of %v. Deviation: of the gaps between releases, as the waiters see them, from 1/rate.\n", rounds, d)
	fmt.Fprintf(out, "Most in %v and late: the largest of the rounds.\n\n", window)
	results := map[int][]result{} // by rate, in the order of contenders
	counts := map[int]int{}
	for _, perSecond := range rates {
		n := waiters
		if perSecond >= 100_000 {
			n = max(waiters, busy)
		}
		counts[perSecond] = n
		all := make([][]result, len(contenders))
		for round := range rounds {
			for i := range contenders { // each is first, second and last in turn
				k := (i + round) % len(contenders)
				r, err := measure(contenders[k], perSecond, n, d)
				if err != nil {
					return err
				}
				if each {
					fmt.Fprintf(out, "%d/s %s: %.1f/s, %v, %v, most %d, late %v\n", perSecond, contenders[k].name, r.rate, r.p50, r.p99, r.most, r.late)
				}
				all[k] = append(all[k], r)
			}
		}
		for _, r := range all {
			results[perSecond] = append(results[perSecond], middle(r))
		}
	}
	table(out, results, counts)
	fmt.Fprintf(out, "\nThe bound of Sluice's lateness: a window of length w holds at most cburst + ceil*(w + %v);\nof %v that is", maxLate, window)
	for i, perSecond := range rates {
		fmt.Fprintf(out, "%s %d at %d/s", []string{"", ","}[min(i, 1)], holds(perSecond), perSecond)
	}
	fmt.Fprint(out, ".\nIt is the releases that it binds; when the waiters see them is up to Go's scheduler.\n\n")
	for _, perSecond := range rates {
		fmt.Fprintln(out, verdict(perSecond, results[perSecond]))
	}
	return nil
}

func table(out io.Writer, results map[int][]result, counts map[int]int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "rate\twaiters\tburst\tlimiter\tachieved/s\terror %%\tdev p50 us\tdev p99 us\tmost in %v\tlate ms\t\n", window)
	for _, perSecond := range rates {
		for i, r := range results[perSecond] {
			b, late := fmt.Sprint(burst(perSecond)), ""
			switch contenders[i].name {
			case "sluice":
				late = fmt.Sprintf("%.2f", float64(r.late)/1e6)
			case "uber":
				if b = "slack 10"; perSecond <= spaced {
					b = "no slack"
				}
			}
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.1f\t%+.3f\t%.1f\t%.1f\t%d\t%s\t\n", perSecond, counts[perSecond], b, contenders[i].name,
				r.rate, r.off(perSecond), float64(r.p50)/1e3, float64(r.p99)/1e3, r.most, late)
		}
	}
	_ = w.Flush()
}

// verdict says whether Sluice does what it is to do at a rate.
func verdict(perSecond int, r []result) string {
	says := func(ok bool) string {
		if ok {
			return "met"
		}
		return "NOT met"
	}
	if perSecond > spaced {
		off := r[0].off(perSecond)
		return fmt.Sprintf("%d/s: achieved within 0.5 %%: %s (%+.3f %%).", perSecond, says(math.Abs(off) <= 0.5), off)
	}
	p50, p99 := min(r[1].p50, r[2].p50), min(r[1].p99, r[2].p99)
	return fmt.Sprintf("%d/s: deviation no worse than the better peer's: p50 %s (%.2f of it), p99 %s (%.2f of it).", perSecond,
		says(r[0].p50 <= p50), float64(r[0].p50)/float64(p50), says(r[0].p99 <= p99), float64(r[0].p99)/float64(p99))
}

// setting names what was measured on what.
func setting() string {
	machine := runtime.GOOS + "/" + runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(text) {
			if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
				machine = strings.TrimSpace(value) + ", " + machine
				break
			}
		}
	}
	s := fmt.Sprintf("%s; %d cores, GOMAXPROCS %d; %s", machine, runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.Version())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/go-sluice/sluice":
			s += "; sluice of this tree"
		case "golang.org/x/time", "go.uber.org/ratelimit":
			s += "; " + m.Path + " " + m.Version
		}
	}
	return s
}
