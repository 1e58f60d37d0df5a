package main

import (
	"math"
	"math/rand/v2"
)

type kind uint8

const (
	poisson  kind = iota
	constant      // evenly spaced
	hungry        // always has a request, and comes back when it is told to
)

// source is what one child does.
type source struct {
	kind     kind
	rate     float64 // units a second
	min, max int     // cost, uniform
	from, to float64 // seconds; to 0: never ends
	most     int     // requests that it wants to pass, 0: no end
	on       float64 // seconds of asking, and as many of silence, in turn; 0: always asks
	pause    float64 // a hungry one comes back no sooner after a refusal
}

func (s source) mean() float64 { return float64(s.min+s.max) / 2 }

func (s source) gap(rng *rand.Rand) float64 {
	if s.kind == constant {
		return s.mean() / s.rate
	}
	return rng.ExpFloat64() * s.mean() / s.rate
}

// tally is what the children wanted and got after the warm-up.
type tally struct{ wanted, got []float64 }

type event struct {
	at    float64
	child int32
	cost  float64 // of a request that comes back; 0: a new one
}

func before(a, b event) bool { return a.at < b.at || a.at == b.at && a.child < b.child }

func sift(q []event, i int) {
	e := q[i]
	for {
		c := 2*i + 1
		if c+1 < len(q) && before(q[c+1], q[c]) {
			c++
		}
		if c >= len(q) || !before(q[c], e) {
			break
		}
		q[i] = q[c]
		i = c
	}
	q[i] = e
}

// simulate has the sources ask p until end. Watch, if any, sees what passes.
func simulate(p policer, sources []source, warm, end float64, stream uint64, watch func(now float64, child int, cost float64)) tally {
	rng := random(stream)
	t := tally{make([]float64, len(sources)), make([]float64, len(sources))}
	q := make([]event, len(sources))
	passed := make([]int, len(sources))
	for i, s := range sources {
		at := s.from
		switch s.kind {
		case constant:
			at += rng.Float64() * s.mean() / s.rate
		case poisson:
			at += s.gap(rng)
		}
		q[i] = event{at: at, child: int32(i)}
		if s.kind == hungry {
			t.wanted[i] = math.Inf(1)
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		sift(q, i)
	}
	for q[0].at < end {
		e := &q[0]
		i, now, s := int(e.child), e.at, &sources[e.child]
		if s.to > 0 && now >= s.to {
			e.at = math.Inf(1)
			sift(q, 0)
			continue
		}
		cost := e.cost
		if cost == 0 {
			cost = float64(s.min)
			if s.max > s.min {
				cost += float64(rng.IntN(s.max - s.min + 1))
			}
		}
		ok, retry := p.allow(now, i, cost)
		if now >= warm && s.kind != hungry {
			t.wanted[i] += cost
		}
		if ok {
			passed[i]++
			if now >= warm {
				t.got[i] += cost
			}
			if watch != nil {
				watch(now, i, cost)
			}
		}
		switch {
		case s.most > 0 && passed[i] == s.most:
			e.at = math.Inf(1)
		case s.kind != hungry:
			e.at = now + s.gap(rng)
			if at := math.Mod(e.at, 2*s.on); s.on > 0 && at >= s.on {
				e.at += 2*s.on - at
			}
		case ok:
			e.at, e.cost = now+1e-6, 0
		default:
			e.at, e.cost = now+max(1e-6, retry*(1+1e-9), s.pause*(0.5+rng.Float64())), cost
		}
		sift(q, 0)
	}
	return t
}

// ideal is the weighted max-min share of supply.
func ideal(wanted, quanta []float64, supply float64) []float64 {
	demands := make([]demand, len(wanted))
	for i := range demands {
		demands[i] = demand{wanted[i], quanta[i]}
	}
	level := fill(demands, supply)
	shares := make([]float64, len(wanted))
	for i := range shares {
		shares[i] = min(wanted[i], level*quanta[i])
	}
	return shares
}

// outcome is how far a tally is from its ideal.
type outcome struct {
	offC   float64 // the worst child's distance, % of capacity
	offOwn float64 // and in % of its own share, where that is 1 % of capacity or more
	used   float64 // %
}

func judge(t tally, p pool, seconds float64) outcome {
	supply := p.capacity * seconds
	var o outcome
	var wanted float64
	for i, share := range ideal(t.wanted, p.quanta, supply) {
		off := math.Abs(t.got[i] - share)
		o.offC = max(o.offC, off/supply*100)
		if share >= supply/100 {
			o.offOwn = max(o.offOwn, off/share*100)
		}
		wanted += share
	}
	o.used = sum(t.got) / wanted * 100
	return o
}

func (o outcome) worse(p outcome) outcome {
	return outcome{max(o.offC, p.offC), max(o.offOwn, p.offOwn), min(o.used, p.used)}
}
