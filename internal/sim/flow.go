package sim

import (
	"container/heap"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

// flow makes the requests of one flow of a load file, one after the other.
type flow struct {
	config.Flow
	index  int // among the flows of the run: breaks ties, and picks the random stream
	random *rand.Rand
	ranks  []float64 // of Zipf: cumulative shares
	seen   []*leaf   // clients that came, each in its place, where another may take over

	leaf  *leaf         // of the next request
	at    time.Duration // of the next request
	cost  int64         // of the next request
	units int64         // that came since began
	began time.Duration // when the flow, or this phase of it, began
	n     int64         // requests made
}

// flowsOf returns the flows of a load file; a backlogged one over several clients
// becomes as many, since each of them always has something to ask for.
func flowsOf(l *config.LoadFile, seed uint64) []*flow {
	var flows []*flow
	add := func(f config.Flow, names []string) *flow {
		x := &flow{Flow: f, index: len(flows), leaf: &leaf{names: names}, at: f.From, began: f.From}
		x.random = rand.New(rand.NewPCG(seed, uint64(x.index)))
		flows = append(flows, x)
		return x
	}
	for _, f := range l.Flows {
		switch {
		case f.Arrivals == config.Backlogged && f.Clients > 0:
			for i := range f.Clients {
				add(f, client(f.Class, i)).start()
			}
		case f.Clients > 0 && f.Zipf > 0:
			x := add(f, f.Class)
			x.ranks = zipf(f.Clients, f.Zipf)
			x.start()
		default:
			add(f, f.Class).start()
		}
	}
	return flows
}

// named returns how many leaves a load names at most.
func named(l *config.LoadFile) (n int) {
	for _, f := range l.Flows {
		n += max(1, f.Clients)
	}
	return n
}

// client returns the path of the i-th client, from 0.
func client(class []string, i int) []string {
	names := slices.Clone(class)
	names[len(names)-1] = "client-" + strconv.Itoa(i+1)
	return names
}

// mostSeen bounds what is kept of clients, of which there may be millions.
const mostSeen = 1 << 16

// clientLeaf returns the leaf of the i-th client.
func (f *flow) clientLeaf(i int) *leaf {
	if f.seen == nil {
		f.seen = make([]*leaf, min(f.Clients, mostSeen))
	}
	l := &f.seen[i%len(f.seen)]
	if *l == nil || (*l).client != i {
		*l = &leaf{names: client(f.Class, i), client: i}
	}
	return *l
}

// zipf returns the cumulative shares of n clients, the k-th of which has 1/k^s.
func zipf(n int, s float64) []float64 {
	ranks := make([]float64, n)
	sum := 0.0
	for k := range ranks {
		sum += math.Pow(float64(k+1), -s)
		ranks[k] = sum
	}
	return ranks
}

// Arrivals yields when the requests of a load come, in order, and what they cost.
// Of a backlogged flow that depends on the answers, so it is an error.
func Arrivals(l *config.LoadFile, seed uint64) (iter.Seq2[time.Duration, int64], error) {
	for i, f := range l.Flows {
		if f.Arrivals == config.Backlogged {
			return nil, &config.Error{File: l.Name, Line: f.Line, Path: fmt.Sprintf("flow %d %q", i+1, htb.Path(f.Class...)),
				Msg: "backlogged arrivals come when they are told to, so they are not the same for all: write constant, poisson, onoff or burst"}
		}
	}
	return func(yield func(time.Duration, int64) bool) {
		flows, _ := startFlows(flowsOf(l, seed))
		for len(flows) > 0 && yield(flows[0].at, flows[0].cost) {
			flows.next(htb.Decision{}, nil, 0)
		}
	}, nil
}

// start sets the first request.
func (f *flow) start() {
	switch f.Arrivals {
	case config.Burst:
		f.at = f.At
	case config.Poisson:
		f.at = f.From + f.gap()
	}
	f.draw()
}

// draw picks cost and client of the next request.
func (f *flow) draw() {
	f.cost = f.Cost.Min
	if f.Cost.Max > f.Cost.Min {
		f.cost += f.random.Int64N(f.Cost.Max - f.Cost.Min + 1)
	}
	if f.Clients == 0 || f.Arrivals == config.Backlogged {
		return
	}
	i := 0
	if f.ranks == nil {
		i = f.random.IntN(f.Clients)
	} else {
		i, _ = slices.BinarySearch(f.ranks, f.random.Float64()*f.ranks[len(f.ranks)-1])
		i = min(i, f.Clients-1)
	}
	f.leaf = f.clientLeaf(i)
}

// gap draws the time between two requests of a Poisson process: a request brings
// (Min+Max)/2 units on average.
func (f *flow) gap() time.Duration {
	mean := (float64(f.Cost.Min) + float64(f.Cost.Max)) / 2 / f.Rate.PerSecond()
	return time.Duration(min(f.random.ExpFloat64()*mean*1e9, math.MaxInt64/4))
}

// service draws how long the downstream works on a request.
func (f *flow) service() time.Duration {
	if f.Service.Exponential {
		return time.Duration(min(f.random.ExpFloat64()*float64(f.Service.Mean), math.MaxInt64/4))
	}
	return f.Service.Mean
}

// over says whether there is no further request.
func (f *flow) over() bool {
	return f.at >= f.To || f.Arrivals == config.Burst && f.n >= f.Count
}

// next goes on to the request after this one, which was refused or not.
func (f *flow) next(d htb.Decision, err error, step time.Duration) {
	f.n++
	switch f.Arrivals {
	case config.Backlogged:
		switch {
		case err != nil: // can never pass: given up, after the time it would have taken
			f.at += max(step, 1)
		case !d.Allowed:
			f.at += min(d.RetryAfter, max(step, 1))
			return // the same request again
		}
	case config.Poisson:
		f.at += f.gap()
	case config.Constant, config.OnOff:
		f.units += f.cost
		f.at = f.began + f.Rate.Takes(f.units) // from the begin, so that rounding does not add up
		if f.Arrivals == config.OnOff && f.at >= f.began+f.On {
			f.began += f.On + f.Off
			f.at, f.units = f.began, 0
		}
	case config.Burst:
		f.at = f.At + time.Duration(float64(f.Over)*float64(f.n)/float64(f.Count))
	}
	f.draw()
}

// flowHeap orders flows by their next request, ties as they stand in the file.
type flowHeap []*flow

// startFlows puts those in order that have a request, and says which are backlogged.
func startFlows(flows []*flow) (h flowHeap, backlogged []*flow) {
	for _, x := range flows {
		if x.over() {
			continue
		}
		if h = append(h, x); x.Arrivals == config.Backlogged {
			backlogged = append(backlogged, x)
		}
	}
	heap.Init(&h)
	return h, backlogged
}

// next makes the next request of the first flow.
func (h *flowHeap) next(d htb.Decision, err error, step time.Duration) {
	x := (*h)[0]
	if x.next(d, err, step); x.over() {
		heap.Pop(h)
	} else {
		heap.Fix(h, 0)
	}
}

func (h flowHeap) Len() int { return len(h) }
func (h flowHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].index < h[j].index
}
func (h flowHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *flowHeap) Push(x any)   { *h = append(*h, x.(*flow)) }
func (h *flowHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
