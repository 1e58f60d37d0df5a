package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/go-sluice/sluice/bench/internal/rig"
)

// liveGroups are figure 3, and the collection of figure 2: what a million limits, and ten
// million, take of the heap, and for how long a full collection lasts with them there.
func liveGroups() []group {
	cols := []string{"bytes", "GC ms", "GC CPU ms", "first ns"}
	return []group{
		{
			figure: "3", name: "live", title: "A million live names of 16 bytes: bytes for each, all included, a full collection with them there (two cores), and the first decision on each", cores: 2,
			columns: cols, first: "bytes", ours: "sluice", apart: true, contenders: living(1_000_000, 100_000),
			targets: []target{
				{what: "a full collection with a million live, ms", of: "sluice", column: "GC ms", most: 10},
				{what: "bytes for each of a million leaves", of: "sluice", column: "bytes", most: 112, aim: 80},
			},
		}, {
			figure: "3", name: "live10", title: "Ten million live names, one round", cores: 2,
			columns: cols, first: "bytes", ours: "sluice", apart: true, once: true, long: true, memory: 12e9, contenders: living(10_000_000, 0),
			targets: []target{
				{what: "bytes for each of ten million leaves", of: "sluice", column: "bytes", most: 112, aim: 80},
			},
		},
	}
}

func living(full, short int) []contender {
	return forEach(func(o options, b byName) (trial, error) {
		n := pick(o, full, short)
		return trial{round: func() (figures, error) { return live(n, b) }}, nil
	})
}

func live(n int, b byName) (figures, error) {
	before := heap()
	k, err := b.make(lasting(n))
	if err != nil {
		return nil, err
	}
	cpu := rig.CPU()
	for i := range n {
		if !k.decide(rig.Name(i)) {
			return nil, fmt.Errorf("%s was refused", rig.Name(i))
		}
	}
	cpu = rig.CPU() - cpu
	f := figures{"first ns": per(cpu, n), "bytes": float64(heap()-before) / float64(n)}
	var wall, used []float64
	for range 3 {
		c, start := rig.CPU(), time.Now()
		runtime.GC()
		wall = append(wall, float64(time.Since(start))/1e6)
		used = append(used, float64(rig.CPU()-c)/1e6)
	}
	f["GC ms"], f["GC CPU ms"] = rig.Median(wall), rig.Median(used)
	return f, k.check(n)
}

// heap returns the bytes that are in use, once all garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first found only finalizers hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
