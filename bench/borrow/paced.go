package main

import (
	"cmp"
	"math"
	"slices"
)

// paced lets every child go at alpha times its quantum, whatever rule it is that finds alpha.
// It keeps v, the integral of alpha, and for each child a tag that is ahead of v by what the
// child has had too early: a GCRA whose rate may change.
type paced struct {
	bucket
	quanta []float64
	tags   []tag
	v      float64
	rule   rule
}

type tag float64

// A rule finds alpha: what a child of quantum 1 may have, a second. It is asked before every
// decision, and told how it went.
type rule interface {
	alpha(now float64, b *bucket, child int, cost float64) float64
	decided(now float64, cost float64, ok, full bool)
}

const slack = 0.05 // seconds of its rate that a child may be early, or late without losing them

func newPaced(p pool, r rule) *paced {
	return &paced{bucket: newBucket(p), quanta: p.quanta, tags: make([]tag, len(p.quanta)), rule: r}
}

func (p *paced) allow(now float64, child int, cost float64) (bool, float64) {
	elapsed := now - p.at
	p.fill(now)
	alpha := p.rule.alpha(now, &p.bucket, child, cost)
	p.v += alpha * elapsed
	t := max(float64(p.tags[child]), p.v-slack*alpha)
	early := t - p.v - slack*alpha
	ok := early <= 0 && p.level >= cost
	p.rule.decided(now, cost, ok, early <= 0 && !ok)
	if !ok {
		return false, max(early/alpha, p.until(cost))
	}
	p.level -= cost
	p.tags[child] = tag(t + cost/p.quanta[child])
	return true, 0
}

// split shares among all children there are, split evenly, whether they want it or not.
type split struct{ share float64 }

func (s split) alpha(float64, *bucket, int, float64) float64 { return s.share }
func (split) decided(float64, float64, bool, bool)           {}

const window = 0.1 // seconds

// activeSplit shares among the children that were seen in this window or in the last.
type activeSplit struct {
	pool
	seen       []int64 // in which window, plus 1
	now        int64
	this, last float64 // sums of quanta; those in last were not seen in this yet
}

func newActiveSplit(p pool) *activeSplit {
	return &activeSplit{pool: p, seen: make([]int64, len(p.quanta))}
}

func (a *activeSplit) alpha(now float64, _ *bucket, child int, _ float64) float64 {
	w := int64(now/window) + 1
	if w != a.now {
		a.last = a.this
		if w > a.now+1 {
			a.last = 0
		}
		a.now, a.this = w, 0
	}
	if a.seen[child] != w {
		if a.seen[child] == w-1 {
			a.last -= a.quanta[child]
		}
		a.seen[child] = w
		a.this += a.quanta[child]
	}
	return a.capacity / (a.this + max(0, a.last))
}
func (*activeSplit) decided(float64, float64, bool, bool) {}

// alphaPI steers alpha by the level of the bucket, continuously.
type alphaPI struct {
	pool
	base, least, most float64
	before, at        float64 // level and time at the last request
}

func newAlphaPI(p pool) *alphaPI {
	even := p.capacity / sum(p.quanta)
	return &alphaPI{pool: p, base: even, least: even / 2, most: 2 * p.capacity / slices.Min(p.quanta)}
}

func (a *alphaPI) alpha(now float64, b *bucket, _ int, _ float64) float64 {
	level := b.level / b.depth
	a.base *= math.Exp(min(10, 60*(level+a.before-1)*(now-a.at)))
	a.base = min(max(a.base, a.least), a.most)
	a.at, a.before = now, level
	return a.base * math.Exp(7*(level-0.5))
}

func (a *alphaPI) decided(_, cost float64, ok, _ bool) {
	if ok {
		a.before -= cost / a.depth
	}
}

// waterfill finds alpha exactly for what was wanted in the last window, walking over all that
// wanted anything.
type waterfill struct {
	pool
	kids   []wanted
	active []int
	now    int64
	scan   []demand
	fair   float64
	least  float64 // quantum
}

type wanted struct{ units float64 }
type demand struct{ units, quantum float64 }

func newWaterfill(p pool) *waterfill {
	least := slices.Min(p.quanta)
	return &waterfill{pool: p, kids: make([]wanted, len(p.quanta)), fair: p.capacity / least, least: least}
}

func (w *waterfill) alpha(now float64, _ *bucket, child int, cost float64) float64 {
	if n := int64(now / window); n != w.now {
		w.scan = w.scan[:0]
		for _, i := range w.active {
			if n == w.now+1 {
				w.scan = append(w.scan, demand{w.kids[i].units, w.quanta[i]})
			}
			w.kids[i].units = 0
		}
		w.active, w.now = w.active[:0], n
		w.fair = fill(w.scan, w.capacity*window) / window
		w.fair = min(w.fair, w.capacity/w.least)
	}
	if w.kids[child].units == 0 {
		w.active = append(w.active, child)
	}
	w.kids[child].units += cost
	return w.fair
}

func (w *waterfill) decided(float64, float64, bool, bool) {}

// fill is the level to which supply fills the demands; infinite if it is more than they want.
func fill(demands []demand, supply float64) float64 {
	slices.SortFunc(demands, func(a, b demand) int { return cmp.Compare(a.units*b.quantum, b.units*a.quantum) })
	var weight float64
	for _, d := range demands {
		weight += d.quantum
	}
	for _, d := range demands {
		if d.units*weight > supply*d.quantum {
			return supply / weight
		}
		supply -= d.units
		weight -= d.quantum
	}
	return math.Inf(1)
}
