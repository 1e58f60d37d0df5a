package htb

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// namesFrom returns n names of 16 bytes.
func namesFrom(from, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%016x", uint64(from+i)*0x9e3779b97f4a7c15)
	}
	return names
}

// zipfOf returns how n decisions fall on live names by Zipf's law.
func zipfOf(live, n int) []uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, uint64(live-1))
	of, order := r.Perm(live), make([]uint32, n)
	for i := range order {
		order[i] = uint32(of[z.Uint64()])
	}
	return order
}

// fullOf returns a tree with a live leaf for each of names.
func fullOf(b require.TestingT, names []string) *Tree {
	tree, err := New(Spec{Rate: algo.PerSecond(1e9), Children: []Spec{{Name: Template, Rate: algo.PerSecond(1e6), Max: len(names), Idle: 1000 * time.Hour}}})
	require.NoError(b, err)
	for _, name := range names {
		_, err := tree.Allow(0, 1, name)
		require.NoError(b, err)
	}
	return tree
}

const million = 1_000_000

// Decisions by name, a million of which live. For the same with limiters in a map see
// bench/names.
func BenchmarkLiveNames(b *testing.B) {
	names, order := namesFrom(0, million), zipfOf(million, 1<<22)
	tree := fullOf(b, names)
	b.ReportAllocs()
	now, i := Time(0), 0
	for b.Loop() {
		now += 200
		_, _ = tree.Allow(now, 1, names[order[i&(1<<22-1)]])
		i++
	}
}

// Names never seen before: in each decision one comes, and about one goes.
func BenchmarkNewNames(b *testing.B) {
	tree := mustTree(b, Spec{Rate: algo.PerSecond(1e9), Children: []Spec{{Name: Template, Rate: algo.PerSecond(20), Max: million}}})
	names := namesFrom(0, 4*million)
	now, i := Time(0), 0
	next := func() {
		now += 500
		_, _ = tree.Allow(now, 1, names[i%len(names)])
		i++
	}
	for range million {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	b.ReportMetric(float64(tree.root.in.dyn.table.n), "live")
}

// How long the slowest of a thousand decisions take while names come and go.
func BenchmarkNewNamesTail(b *testing.B) {
	tree := mustTree(b, Spec{Rate: algo.PerSecond(1e9), Children: []Spec{{Name: Template, Rate: algo.PerSecond(20), Max: million}}})
	var took []time.Duration
	now := Time(0)
	for n := 0; b.Loop(); n++ {
		for _, name := range namesFrom(n*million/2, million/2) {
			now += 500
			begin := time.Now()
			_, _ = tree.Allow(now, 1, name)
			if d := time.Since(begin); n > 0 {
				took = append(took, d)
			}
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*999/1000]), "ns-p99.9")
		b.ReportMetric(float64(took[len(took)-1]), "ns-most")
	}
}

// One full collection with a million live leaves.
func BenchmarkCollection(b *testing.B) {
	tree := fullOf(b, namesFrom(0, million))
	runtime.GC()
	for b.Loop() {
		runtime.GC()
	}
	runtime.KeepAlive(tree)
}

// What a leaf takes, its name and the index included.
func TestMemoryOfALeaf(t *testing.T) {
	live := func(n int) float64 {
		names := namesFrom(0, n)
		before := inUse()
		tree := fullOf(t, names)
		bytes := float64(inUse()-before) / float64(n)
		require.Equal(t, n, tree.root.in.dyn.all())
		runtime.KeepAlive(names)
		return bytes
	}
	for _, n := range []int{100_000, 300_000, million} {
		got := live(n)
		t.Logf("%d leaves: %.1f bytes each", n, got)
		require.Less(t, got, 90.)
	}
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
