package main

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// allow decides on one request that came at the gateway g.
type allow func(ctx context.Context, g int, client string) bool

// decision is one, since the load began.
type decision struct {
	at, took time.Duration
	allowed  bool
}

// record is every decision, and when.
type record struct {
	all []decision // with room for all of them
	n   int
}

func newRecord(p plan) *record {
	room := 1
	for at := time.Duration(0); at < p.end(); at += time.Millisecond {
		room += 1 + int(p.rate(at)/1000)
	}
	return &record{all: make([]decision, 2*room)}
}

func (r *record) decisions() []decision { return r.all[:r.n] }

// load sends requests, each by a goroutine of its own, whatever became of those before.
func (r *record) load(p plan, begun time.Time, ask allow) {
	var all sync.WaitGroup
	due, last := 0., time.Duration(0)
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		now := time.Since(begun)
		if now >= p.end() {
			tick.Stop()
			break
		}
		due += p.rate(now) * (now - last).Seconds()
		for last = now; due >= 1 && r.n < len(r.all); due-- {
			i := r.n
			r.n++
			all.Go(func() {
				d := &r.all[i]
				d.at = time.Since(begun)
				d.allowed = ask(context.Background(), i%gateways, strconv.Itoa(i*2/3))
				d.took = time.Since(begun) - d.at
			})
		}
	}
	all.Wait()
}

// backend is what became of the one behind a limiter.
type backend struct {
	worst, idle   float64 // in %
	over, backlog time.Duration
}

const slot = 100 * time.Millisecond

// backend counts what passed, by slot.
func (r *record) backend(p plan) (b backend) {
	slots := make([]float64, p.end()/slot+2)
	for _, d := range r.decisions() {
		if d.allowed {
			slots[min(len(slots)-1, int((d.at+d.took)/slot))]++
		}
	}
	can := float64(p.size) * slot.Seconds()
	backlog, idle, high := 0., 0., 0.
	for i, n := range slots[:len(slots)-2] {
		b.worst = max(b.worst, 100*n/can)
		if n > 1.2*can {
			b.over += slot
		}
		backlog = max(0, backlog+n-can)
		b.backlog = max(b.backlog, time.Duration(backlog/can*float64(slot)))
		if time.Duration(i)*slot >= p.before+rise {
			idle += max(0, can-n)
			high += can
		}
	}
	b.idle = 100 * idle / high
	return b
}
