package main

import (
	"unsafe"

	"github.com/go-sluice/sluice/htb"
)

// A policer says at once whether the request of a child passes. retry is after how many
// seconds a refused one had better come back: the scheme's own guess.
type policer interface {
	allow(now float64, child int, cost float64) (ok bool, retry float64)
}

// pool is what the children share: capacity units a second, of which it holds up to depth.
type pool struct {
	capacity, depth float64
	quanta          []float64
}

type scheme struct {
	name  string
	state uintptr // bytes for each child, its quantum not counted
	make  func(pool) policer
}

const tagged = unsafe.Sizeof(tag(0))

var schemes = []scheme{
	{"sluice", unsafe.Sizeof(htb.Ticks{}), func(p pool) policer { return newSluice(p) }},
	{"fcfs", 0, func(p pool) policer { return &fcfs{newBucket(p)} }},
	{"static", tagged, func(p pool) policer { return newPaced(p, split{p.capacity / sum(p.quanta)}) }},
	{"static-active", tagged + unsafe.Sizeof(int64(0)), func(p pool) policer { return newPaced(p, newActiveSplit(p)) }},
	{"csfq-paced", tagged + unsafe.Sizeof(average{}), func(p pool) policer { return newPaced(p, newCSFQ(p)) }},
	{"csfq-random", unsafe.Sizeof(average{}), func(p pool) policer { return newRandomDrop(p) }},
	{"alphaPI", tagged, func(p pool) policer { return newPaced(p, newAlphaPI(p)) }},
	{"waterfill", tagged + unsafe.Sizeof(wanted{}), func(p pool) policer { return newPaced(p, newWaterfill(p)) }},
	{"debt", unsafe.Sizeof(debtor{}) + unsafe.Sizeof(int32(0)), func(p pool) policer { return newDebt(p) }},
}

func sum(of []float64) (total float64) {
	for _, x := range of {
		total += x
	}
	return total
}

// bucket is the shared token bucket.
type bucket struct{ capacity, depth, level, at float64 }

func newBucket(p pool) bucket { return bucket{p.capacity, p.depth, p.depth, 0} }

func (b *bucket) fill(now float64) {
	b.level = min(b.depth, b.level+b.capacity*(now-b.at))
	b.at = now
}

// until is how long it takes to hold need.
func (b *bucket) until(need float64) float64 { return max(0, (need-b.level)/b.capacity) }

// fcfs is the bucket alone: first come, first served.
type fcfs struct{ bucket }

func (f *fcfs) allow(now float64, _ int, cost float64) (bool, float64) {
	f.fill(now)
	if f.level < cost {
		return false, f.until(cost)
	}
	f.level -= cost
	return true, 0
}
