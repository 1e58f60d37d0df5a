package plot

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-sluice/sluice/internal/result"
)

// flow is one leaf of a made-up run: what it is promised and how it asks.
type flow struct {
	path       string
	rate, ceil float64
	rest       bool
	wants      func(step int) float64 // units in this step
}

// onOff, burst and steady are the loads of DESIGN.md's load file in miniature.
func onOff(rate float64, on, off, shift int) func(int) float64 {
	return func(i int) float64 {
		if (i+shift)%(on+off) < on {
			return rate
		}
		return 0
	}
}

func burst(base, rate float64, at, steps int) func(int) float64 {
	return func(i int) float64 {
		if i >= at && i < at+steps {
			return rate
		}
		return base
	}
}

func steady(rate float64, noise uint64) func(int) float64 {
	r := rand.New(rand.NewPCG(7, noise))
	return func(int) float64 { return rate * (0.85 + 0.3*r.Float64()) }
}

// makeRun shares ceil out among the flows in each step: guarantees first, then
// equal parts of what is left, which is near enough to the real thing to look at.
func makeRun(ceil float64, steps int, flows []flow) *result.Run {
	run := &result.Run{Tree: "api", Mode: "police", Unit: "requests", Seconds: float64(steps), Step: 1}
	run.Rows = append(run.Rows, result.Row{Path: "global", Rate: ceil, Ceil: ceil, Series: newSeries(steps)})
	at := map[string]int{}
	for _, f := range flows {
		if parent, _ := cutPath(f.path); parent != "" {
			if _, ok := at[parent]; !ok {
				at[parent] = len(run.Rows)
				run.Rows = append(run.Rows, result.Row{Path: parent, Depth: 1, Rate: 200, Ceil: 800, Series: newSeries(steps)})
			}
		}
		_, depth := cutPath(f.path)
		at[f.path] = len(run.Rows)
		run.Rows = append(run.Rows, result.Row{Path: f.path, Depth: depth, Leaf: !f.rest, Rest: f.rest,
			Rate: f.rate, Ceil: f.ceil, Series: newSeries(steps)})
	}
	for step := range steps {
		wants, gets := make([]float64, len(flows)), make([]float64, len(flows))
		left := ceil
		for i, f := range flows {
			wants[i] = f.wants(step)
			gets[i] = min(wants[i], f.rate)
			left -= gets[i]
		}
		for range 50 {
			for i, f := range flows {
				more := min(wants[i], f.ceil) - gets[i]
				more = max(min(more, left/float64(len(flows))), 0)
				gets[i] += more
				left -= more
			}
		}
		for i, f := range flows {
			parent, _ := cutPath(f.path)
			for _, path := range []string{"global", parent, f.path} {
				if row, ok := at[path]; path == "global" || ok {
					count(&run.Rows[row], step, wants[i], gets[i])
				}
			}
		}
	}
	return run
}

func count(r *result.Row, step int, wants, gets float64) {
	jitter := 1 - 0.03*float64(step*7919%11)/10
	got := int64(gets * jitter)
	r.Series.Wants[step] += int64(wants)
	r.Series.Gets[step] += got
	r.Series.Fair[step] += gets
	r.Wants += int64(wants)
	r.Gets += got
	r.Rejected = r.Wants - r.Gets
	r.Borrows = max(0, r.Gets-int64(r.Rate)*int64(step+1))
	r.Own = r.Gets - r.Borrows
	r.Fair += gets
}

func newSeries(n int) result.Series {
	return result.Series{Wants: make([]int64, n), Gets: make([]int64, n), Fair: make([]float64, n)}
}

// cutPath is the parent's path ("" below the root) and the depth of path.
func cutPath(path string) (parent string, depth int) {
	depth = 1
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			if parent == "" {
				parent = path[:i]
			}
			depth++
		}
	}
	return parent, depth
}

// threeClasses is one tenant with a guarantee, and two clients that live off what it leaves.
func threeClasses() *result.Run {
	run := makeRun(1000, 60, []flow{
		{"acme", 600, 1000, false, onOff(900, 12, 10, 0)},
		{"free/alice", 50, 400, false, steady(300, 1)},
		{"free/bob", 50, 400, false, burst(120, 3000, 30, 15)},
	})
	run.Notes = []string{"free/bob offered 25 times its guarantee from 30 s to 45 s."}
	return run
}

// thirtyClasses has 30 rows below the root, long names and a rest row among them.
func thirtyClasses(steps int) *result.Run {
	var flows []flow
	unit := max(steps/60, 1)
	for i := range 6 {
		flows = append(flows, flow{fmt.Sprintf("tenant-%c", 'a'+i), 60, 500, false, onOff(90+60*float64(i), (5+3*i)*unit, 8*unit, 3*i*unit)})
	}
	for i := range 10 {
		flows = append(flows, flow{fmt.Sprintf("free/client-%02d.eu-west-1.customers.example.com", i), 5, 80, false, steady(12+4*float64(i), uint64(i))})
	}
	flows = append(flows, flow{"free/*", 5, 80, true, steady(70, 99)})
	for i := range 11 {
		flows = append(flows, flow{fmt.Sprintf("batch/job%d", i), 10, 300, false, burst(float64(2*i), 700, (4*i+2)*unit, 4*unit)})
	}
	return makeRun(1200, steps, flows)
}
