// Incident replays how a backend falls over behind a limiter that asks Redis about every
// request: the load jumps to sixteen times within a fifth of a second, and Redis is paused,
// killed and started again in the middle of it. One limiter after the other meets the same.
//
//	go run ./incident -steady 1000 -times 16
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/go-sluice/sluice/internal/redistest"
)

// plan is what happens.
type plan struct {
	steady, times, size int           // requests per second, before the jump; times so many in it; what the backend can do
	budget              time.Duration // of a decision
	sync                time.Duration
	before, jump        time.Duration // how long the load is steady, and then high
}

// The jump: it is reached within rise; Redis is paused and killed for a quarter of it each.
const rise = 200 * time.Millisecond

func (p plan) paused() (from, to time.Duration) { return p.before + p.jump/8, p.before + p.jump*3/8 }
func (p plan) killed() (from, to time.Duration) {
	return p.before + p.jump*5/8, p.before + p.jump*7/8
}
func (p plan) end() time.Duration { return p.before + p.jump }

// rate is the load at a time, per second.
func (p plan) rate(at time.Duration) float64 {
	high := min(1, max(0, float64(at-p.before)/float64(rise)))
	return float64(p.steady) * (1 + float64(p.times-1)*high)
}

func main() {
	p := plan{}
	flag.IntVar(&p.steady, "steady", 1000, "requests per second before the jump")
	flag.IntVar(&p.times, "times", 16, "what the load jumps to, times the steady one")
	flag.IntVar(&p.size, "size", 4400, "requests per second that the backend can do, and the limit")
	flag.DurationVar(&p.budget, "timeout", 8*time.Millisecond, "the longest that a decision may wait for Redis")
	flag.DurationVar(&p.sync, "sync", 200*time.Millisecond, "of the limiter that exchanges sums")
	flag.DurationVar(&p.before, "before", 2*time.Second, "how long the load is steady")
	flag.DurationVar(&p.jump, "jump", 8*time.Second, "how long it is high")
	flag.Parse()
	if err := run(os.Stdout, p); err != nil {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, p plan) error {
	pausedFrom, pausedTo := p.paused()
	killedFrom, killedTo := p.killed()
	fmt.Fprintf(w, `%s, GOMAXPROCS %d, Redis and the load on the same machine.
%d requests/s, from %v on %d/s, of clients with one or two each, to %d gateways before a backend for %d/s. Redis is paused
from %v to %v, killed at %v and back, empty, at %v. A decision may wait %v for Redis.

Times of decisions in ms. Over: by 100 ms, what passed in %% of what the backend can do; worst, and how long more than 120 %%.
Backlog: how much work, in ms of the backend's time, had piled up at most. Idle: refused, though a backend of that size
could have done it, in %% of what it could do while the load was high.

`, runtime.Version(), runtime.GOMAXPROCS(0), p.steady, p.before, p.steady*p.times, gateways, p.size,
		pausedFrom, pausedTo, killedFrom, killedTo, p.budget)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "limiter\tsteady p50\tp99\tjump p50\tp99\tpaused p50\tp99\tkilled p50\tp99\tmax\tworst %\tover 120 %\tbacklog\tidle %\tload/s\t")
	for _, l := range limiters {
		r, err := measure(p, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		r.row(table, p, l.name)
	}
	return table.Flush()
}

func measure(p plan, l limiter) (r *record, err error) {
	server, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	allow, end, err := l.make(p, server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	r = newRecord(p)
	begun := time.Now()
	broken := make(chan error, 1)
	go func() { broken <- breakRedis(p, server, begun) }()
	r.load(p, begun, allow)
	return r, <-broken
}

// breakRedis pauses and kills the server when it is time to.
func breakRedis(p plan, server *redistest.Server, begun time.Time) error {
	pausedFrom, pausedTo := p.paused()
	killedFrom, killedTo := p.killed()
	for _, step := range []struct {
		at time.Duration
		do func() error
	}{
		{pausedFrom, server.Pause}, {pausedTo, server.Resume},
		{killedFrom, server.Kill}, {killedTo, func() error { return server.Start() }},
	} {
		time.Sleep(time.Until(begun.Add(step.at)))
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// row prints what a limiter did.
func (r *record) row(w io.Writer, p plan, name string) {
	pausedFrom, pausedTo := p.paused()
	killedFrom, killedTo := p.killed()
	times := map[string][]time.Duration{}
	longest := time.Duration(0)
	for _, d := range r.decisions() {
		phase := "jump"
		switch {
		case d.at < p.before:
			phase = "steady"
		case d.at >= pausedFrom && d.at < pausedTo:
			phase = "paused"
		case d.at >= killedFrom && d.at < killedTo:
			phase = "killed"
		}
		times[phase] = append(times[phase], d.took)
		longest = max(longest, d.took)
	}
	fmt.Fprintf(w, "%s\t", name)
	for _, phase := range []string{"steady", "jump", "paused", "killed"} {
		t := times[phase]
		slices.Sort(t)
		fmt.Fprintf(w, "%s\t%s\t", ms(t, .5), ms(t, .99))
	}
	b := r.backend(p)
	high := len(times["jump"]) + len(times["paused"]) + len(times["killed"])
	fmt.Fprintf(w, "%.1f\t%.0f\t%v\t%.0f\t%.0f\t%.0f\t\n", longest.Seconds()*1000, b.worst, b.over, b.backlog.Seconds()*1000, b.idle, float64(high)/p.jump.Seconds())
}

func ms(sorted []time.Duration, q float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds()*1000)
}
