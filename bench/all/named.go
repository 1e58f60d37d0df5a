package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/queue"
)

// namedGroups are figure 2: decisions by name, among a million clients that are there, and
// of clients never seen before.
func namedGroups() []group {
	cols := []string{"ns", "wall ns", "allocs", "B"}
	latency := []string{"p50 ns", "p99 ns", "p99.9 ns", "max us", "wall ns"}
	return []group{
		{
			figure: "2", name: "names", title: "By name, a million live, Zipf 1.1, one core", cores: 1,
			columns: cols, first: "ns", ours: "sluice", turns: 5, contenders: forEach(known),
			targets: []target{
				{what: "by name, of x/time in 256 shards", of: "sluice", column: "ns", than: []string{"x/time in 256 shards"}, most: 0.6},
				{what: "allocations of a decision by name", of: "sluice", column: "allocs"},
			},
		}, {
			figure: "2", name: "crowd", title: "By name, a million live, Zipf 1.1, 64 goroutines on two cores: each decision timed", cores: 2,
			columns: latency, first: "p99 ns", ours: "sluice", contenders: append(forEach(crowd), clock()),
			targets: []target{
				{what: "64 goroutines: p99 of a decision, ns", of: "sluice", column: "p99 ns", most: 20_000},
			},
		}, {
			figure: "2", name: "new", title: "Names never seen before, a million in a round, forgotten after 50 ms or beyond 100 000, one core", cores: 1,
			columns: cols, first: "ns", ours: "sluice", contenders: forgetful(unknown),
			targets: []target{
				{what: "new names, of the faster of go-cache and LRU", of: "sluice", column: "ns", than: []string{"x/time in go-cache", "x/time in an LRU"}, most: 1},
			},
		}, {
			figure: "2", name: "evict", title: "Names never seen before, the same on two cores: each decision timed", cores: 2,
			columns: latency, first: "p99.9 ns", ours: "sluice", contenders: forgetful(unknownTimed),
			targets: []target{
				{what: "while evicting: p99.9 of a decision, ns", of: "sluice", column: "p99.9 ns", most: 50_000},
			},
		},
	}
}

// forEach returns a contender for each way to keep limits by name.
func forEach(kind func(o options, b byName) (trial, error)) (all []contender) {
	for _, b := range byNames() {
		all = append(all, contender{b.name, func(o options) (trial, error) { return kind(o, b) }})
	}
	return all
}

// forgetful is forEach without those that keep every name for good.
func forgetful(kind func(o options, b byName) (trial, error)) []contender {
	return slices.DeleteFunc(forEach(kind), func(c contender) bool { return slices.Contains(hoarders, c.name) })
}

var hoarders = []string{"x/time in 256 shards", "x/time in sync.Map"}

// filled returns a limiter that has seen n names, and names in the order of requests.
func filled(o options, b byName) (k keyed, order []string, err error) {
	n := pick(o, 1_000_000, 100_000)
	if k, err = b.make(lasting(n)); err != nil {
		return k, nil, err
	}
	order = rig.Zipf(n, 1<<21)
	for range 2 { // the second time in its steady state
		for i := range n {
			if !k.decide(rig.Name(i)) {
				return k, nil, fmt.Errorf("%s was refused", rig.Name(i))
			}
		}
	}
	runtime.GC()
	return k, order, nil
}

// known decides on names that are live.
func known(o options, b byName) (trial, error) {
	k, order, err := filled(o, b)
	if err != nil {
		return trial{}, err
	}
	at := 0
	t := timed(true, func(n int) (allowed int) {
		for range n {
			if k.decide(order[at%len(order)]) {
				allowed++
			}
			at++
		}
		return allowed
	})
	t.check = func() error { return k.check(pick(o, 1_000_000, 100_000)) }
	return t, nil
}

func (k keyed) check(want int) error {
	if k.live == nil {
		return nil
	}
	if live := k.live(); live != want {
		return fmt.Errorf("%d names live, not %d", live, want)
	}
	return nil
}

const goroutines = 64

// crowd has goroutines decide on live names, and times each decision.
func crowd(o options, b byName) (trial, error) {
	k, order, err := filled(o, b)
	if err != nil {
		return trial{}, err
	}
	return trial{
		round: func() (figures, error) { return hammer(pick(o, time.Second, time.Second/5), order, k.decide) },
		check: func() error { return k.check(pick(o, 1_000_000, 100_000)) },
	}, nil
}

// clock is the time that timing takes by itself: part of every other figure.
func clock() contender {
	return contender{"(the clock alone)", func(o options) (trial, error) {
		return trial{round: func() (figures, error) {
			return hammer(pick(o, time.Second, time.Second/5), []string{""}, func(string) bool { return true })
		}}, nil
	}}
}

func hammer(d time.Duration, order []string, decide func(string) bool) (figures, error) {
	times := make([]queue.Histogram, goroutines)
	refused := make([]int, goroutines)
	var wg sync.WaitGroup
	start := time.Now()
	end := sluice.Now() + htb.Time(d)
	for g := range goroutines {
		wg.Go(func() {
			var h queue.Histogram // of this goroutine's own, not beside that of another
			for i := g * len(order) / goroutines; ; i++ {
				from := sluice.Now()
				if from > end {
					break
				}
				ok := decide(order[i%len(order)])
				h.Add(sluice.Now().Sub(from))
				if !ok {
					refused[g]++
				}
			}
			times[g] = h
		})
	}
	wg.Wait()
	wall := time.Since(start)
	var all queue.Histogram
	for g := range times {
		all.Merge(&times[g])
		if refused[g] > 0 {
			return nil, fmt.Errorf("%d decisions were refusals", refused[g])
		}
	}
	f := quantiles(&all)
	f["wall ns"] = per(wall, int(all.N()))
	return f, nil
}

func quantiles(h *queue.Histogram) figures {
	return figures{
		"p50 ns": float64(h.Quantile(0.5)), "p99 ns": float64(h.Quantile(0.99)), "p99.9 ns": float64(h.Quantile(0.999)),
		"max us": float64(h.Max()) / 1e3,
	}
}

// unknown decides once on each of a million names that nobody has seen.
func unknown(o options, b byName) (trial, error) { return strangers(o, b, false) }

// unknownTimed does the same, and times each decision.
func unknownTimed(o options, b byName) (trial, error) { return strangers(o, b, true) }

func strangers(o options, b byName, each bool) (trial, error) {
	k, err := b.make(passing())
	if err != nil {
		return trial{}, err
	}
	n, next := pick(o, 1_000_000, 200_000), 0
	var h queue.Histogram
	run := counted(true, func(n int) (allowed int) {
		for range n {
			name := rig.Name(next)
			next++
			from := htb.Time(0)
			if each {
				from = sluice.Now()
			}
			if k.decide(name) {
				allowed++
			}
			if each {
				h.Add(sluice.Now().Sub(from))
			}
		}
		return allowed
	})
	return trial{
		round: func() (figures, error) {
			h = queue.Histogram{}
			f, err := run(n)
			if err == nil && each {
				q := quantiles(&h)
				q["wall ns"] = f["wall ns"]
				f = q
			}
			return f, err
		},
		check: func() error {
			if k.live != nil && k.live() > next/2 {
				return fmt.Errorf("%d of %d names are still live: nothing was evicted", k.live(), next)
			}
			return nil
		},
	}, nil
}
