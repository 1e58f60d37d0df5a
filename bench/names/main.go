// Names measures decisions by name: on many names that live, asked for by Zipf's law, and
// on names never seen before, while those that are not needed any more are evicted.
//
//	go run ./names -live 1000000 -rounds 5
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// keeper decides on names. The 16 bytes of a name are the caller's.
type keeper interface {
	allow(name string) bool
	close()
}

type contender struct {
	name string
	make func(live int) keeper
}

func main() {
	live := flag.Int("live", 1_000_000, "names that live")
	fresh := flag.Int("fresh", 1_000_000, "names in a round that were never seen before")
	rounds := flag.Int("rounds", 5, "rounds, each of all contenders")
	ops := flag.Int("ops", 4_000_000, "decisions on names that live in a round")
	flag.Parse()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer out.Flush()

	fmt.Fprintf(out, "%d live names, Zipf 1.1\tns, 1 core\t2 cores\tallocations\tbytes a name\tcollection\t\n", *live)
	zipf(out, *live, *ops, *rounds)
	fmt.Fprintf(out, "\t\t\t\t\t\t\n%d new names\tns, 1 core\t2 cores\tp99.9\tmost\tlive at the end\t\n", *fresh)
	unseen(out, *fresh, *rounds)
}

// zipf lets all contenders decide on the same names in turn.
func zipf(out *tabwriter.Writer, live, ops, rounds int) {
	type row struct {
		keeper
		size       float64
		collection time.Duration
		allocs     uint64
		ns         [2][]float64
	}
	rows := make([]row, len(living))
	fill := func(i int) keeper {
		k := living[i].make(live)
		for n := range live {
			k.allow(makeName(n))
		}
		return k
	}
	for i := range rows { // alone
		before := inUse()
		k := fill(i)
		rows[i].size = float64(inUse()-before) / float64(live)
		rows[i].collection = time.Duration(1 << 62)
		for range rounds {
			begin := time.Now()
			runtime.GC()
			rows[i].collection = min(rows[i].collection, time.Since(begin))
		}
		runtime.KeepAlive(k)
	}
	// Requests bring their names with them, so they lie one behind the other.
	var text strings.Builder
	text.Grow(16 * ops)
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, uint64(live-1))
	of := r.Perm(live) // so that neighbours are not asked for alike often
	for range ops {
		text.WriteString(makeName(of[z.Uint64()]))
	}
	asked := make([]string, ops)
	for i := range asked {
		asked[i] = text.String()[16*i:][:16]
	}
	for i := range rows {
		rows[i].keeper = fill(i)
	}
	runtime.GC()
	for range rounds {
		for cores := 1; cores <= 2; cores++ {
			for i := range rows {
				row := &rows[i]
				a := mallocs()
				do := func(i int) { row.allow(asked[i]) }
				if cores == 1 {
					row.ns[0] = append(row.ns[0], usual(ops, do))
				} else {
					row.ns[1] = append(row.ns[1], timed(cores, ops, do))
				}
				row.allocs += mallocs() - a
			}
		}
	}
	for i, row := range rows {
		fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%.3f\t%.0f\t%v\t\n", living[i].name, median(row.ns[0]), median(row.ns[1]),
			float64(row.allocs)/float64(2*rounds*ops), row.size, row.collection.Round(10*time.Microsecond))
		row.close()
	}
}

// unseen lets them decide once on each of many names.
func unseen(out *tabwriter.Writer, fresh, rounds int) {
	type row struct {
		keeper
		ns          [2][]float64
		tails, most []float64
	}
	rows := make([]row, len(evicting))
	for i := range rows {
		rows[i].keeper = evicting[i].make(fresh)
	}
	from := 0
	for round := range rounds + 1 { // the first fills
		for i := range rows {
			row := &rows[i]
			for cores := 1; cores <= 2; cores++ {
				from += fresh
				names := makeNames(fresh, from)
				runtime.GC()
				if ns := timed(cores, fresh, func(i int) { row.allow(names[i]) }); round > 0 {
					row.ns[cores-1] = append(row.ns[cores-1], ns)
				}
			}
			from += fresh
			took := make([]float64, fresh)
			for i, name := range makeNames(fresh, from) {
				begin := time.Now()
				row.allow(name)
				took[i] = float64(time.Since(begin))
			}
			slices.Sort(took)
			if round > 0 {
				row.tails, row.most = append(row.tails, took[fresh*999/1000]), append(row.most, took[fresh-1])
			}
		}
	}
	for i, row := range rows {
		left := 0
		if s, ok := row.keeper.(interface{ live() int }); ok {
			left = s.live()
		}
		fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%v\t%v\t%d\t\n", evicting[i].name, median(row.ns[0]), median(row.ns[1]),
			time.Duration(median(row.tails)), time.Duration(median(row.most)), left)
		row.close()
	}
}

// timed does n things on some cores and returns how many nanoseconds each takes.
func timed(cores, n int, do func(i int)) float64 {
	begin := time.Now()
	var wg sync.WaitGroup
	for g := range cores {
		wg.Go(func() {
			for i := g * n / cores; i < (g+1)*n/cores; i++ {
				do(i)
			}
		})
	}
	wg.Wait()
	return float64(time.Since(begin)) / float64(n)
}

// usual is timed on one core, of most stretches of a few hundred, so that it matters less
// what else the machine does: for what takes always the same.
func usual(n int, do func(i int)) float64 {
	const stretch = 500
	var took []float64
	for i := 0; i+stretch <= n; {
		begin := time.Now()
		for range stretch {
			do(i)
			i++
		}
		took = append(took, float64(time.Since(begin))/stretch)
	}
	return median(took)
}

// makeNames returns n names of 16 bytes, from a number on.
func makeNames(n, from int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = makeName(from + i)
	}
	return names
}

func makeName(n int) string { return fmt.Sprintf("%016x", uint64(n)*0x9e3779b97f4a7c15) }

func inUse() int64 {
	var m runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
