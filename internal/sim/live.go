package sim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/queue"
)

// Gateway decides on requests. It may be used by any number of goroutines.
type Gateway interface {
	Allow(ctx context.Context, cost int64, names ...string) (htb.Decision, error)
}

const (
	// mostAsking is how many requests may wait for the store at each gateway; more wait
	// for their turn, and are late.
	mostAsking = 4096
	// grace is how long after its end a run goes on with requests that are late.
	grace = time.Second
	// blink is how often a run that has nothing to do looks whether it is to go on.
	blink = 50 * time.Millisecond
	// late is beyond what timers and a collection of garbage make of a request's time.
	late = 20 * time.Millisecond
)

// live is a run in real time. One goroutine makes the requests; it decides on those that
// need nothing but memory, and starts a goroutine for each that asks the store.
type live struct {
	*run
	gateways   []Gateway
	skew       []float64    // cumulative
	even       bool         // all parts are equal
	deals      []*rand.Rand // by flow: which gateway its next request goes to
	asks       []bool       // by flow: a decision asks the store
	flows      flowHeap
	backlogged []*flow
	begin      time.Time
	end        time.Duration
	asking     sync.WaitGroup
	slots      []chan struct{} // by gateway
	back       chan *flow      // backlogged ones that have an answer

	sent, slow, missed int64
	lateness           queue.Histogram
	stop               context.CancelFunc

	mu   sync.Mutex // guards run and what follows
	each []result.Gateway
	took queue.Histogram
	err  error
}

// Live runs gateways under a load in real time: arrivals are those of [Load] with the
// same seed, skew says in which parts they are dealt out to gateways, nil in equal ones.
// The tree of f is that of each gateway. A backlogged flow stays at one gateway
// unless parts differ. When ctx ends it returns what was measured until then, with
// the error of ctx.
//
// What is ideal is worked out as for one gateway. Of a class that gateways share the
// worst window is measured from admission to admission, at the times at which these were known here.
func Live(ctx context.Context, f *config.File, load *config.LoadFile, gateways []Gateway, skew []float64, o Options) (*result.Run, error) {
	r, err := newRun(f, o)
	if err != nil {
		return nil, err
	}
	if err := r.check(load); err != nil {
		return nil, err
	}
	r.ends(load.Duration)
	if skew == nil {
		skew = slices.Repeat([]float64{1}, len(gateways))
	}
	l := &live{run: r, gateways: gateways, end: load.Duration, each: make([]result.Gateway, len(gateways))}
	l.even = slices.Min(skew) == slices.Max(skew)
	for i, part := range skew {
		if l.skew = append(l.skew, part); i > 0 {
			l.skew[i] += l.skew[i-1]
		}
		l.slots = append(l.slots, make(chan struct{}, mostAsking))
	}
	flows := flowsOf(load, o.Seed)
	for _, x := range flows {
		l.deals = append(l.deals, rand.New(rand.NewPCG(o.Seed, 1<<63|uint64(x.index)))) // no flow's own stream
		l.asks = append(l.asks, leafOf(r.root.spec, x.Class).Remote)
	}
	l.flows, l.backlogged = startFlows(flows)
	l.back = make(chan *flow, len(l.backlogged))
	return l.measure(ctx, load, skew)
}

// leafOf returns the class that names lead to.
func leafOf(s *htb.Spec, names []string) *htb.Spec {
	for _, name := range names {
		at := slices.IndexFunc(s.Children, func(c htb.Spec) bool { return c.Name == name })
		if at < 0 {
			at = slices.IndexFunc(s.Children, func(c htb.Spec) bool { return c.Name == htb.Template })
		}
		s = &s.Children[at]
	}
	return s
}

func (l *live) measure(ctx context.Context, load *config.LoadFile, skew []float64) (*result.Run, error) {
	if ctx.Err() != nil {
		return l.finish(ctx, l.backlogged)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	l.stop, l.begin = stop, time.Now()
	l.drive(running)
	until := min(l.elapsed(), l.end)
	l.asking.Wait()
	if l.err != nil {
		var at *flowError
		if errors.As(l.err, &at) {
			return nil, &config.Error{File: load.Name, Line: at.line, Msg: at.err.Error()}
		}
		return nil, l.err
	}
	l.advance(htb.Time(until), l.backlogged)
	out, err := l.finish(ctx, l.backlogged)
	out.Gateways = &result.Gateways{Skew: skew, Each: l.each, Took: delay(&l.took), Late: delay(&l.lateness), Missed: l.missed}
	n := float64(len(l.gateways))
	for i := range out.Rows {
		row := &out.Rows[i]
		if row.Shared == nil {
			continue
		}
		if row.Shared.Sync > 0 {
			row.Shared.Bound = (n-1)*float64(row.Shared.CBurst) + n*row.Ceil*row.Shared.Sync.Seconds()
		}
		if !row.Rest {
			row.Shared.Beyond = max(0, float64(row.Gets)-float64(row.Shared.CBurst)-row.Ceil*out.Seconds)
		}
	}
	if l.slow*100 > l.sent {
		out.Notes = append(out.Notes, fmt.Sprintf("this machine did not keep up: %d of %d requests were asked more than %v late, by up to %v: the load was less even than its file says",
			l.slow, l.sent, late, l.lateness.Max().Round(time.Millisecond)))
	}
	if l.missed > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("this machine did not keep up: %d requests were due and not asked when the time was over, and are not in this result", l.missed))
	}
	return out, err
}

// flowError is what is wrong with the requests of a flow.
type flowError struct {
	line int
	err  error
}

func (e *flowError) Error() string { return e.err.Error() }

func (l *live) elapsed() time.Duration { return time.Since(l.begin) }

// drive makes requests, each at its time, until the end.
func (l *live) drive(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case x := <-l.back:
			l.again(x)
		default:
		}
		now, next := l.elapsed(), l.end
		if n%256 == 0 && !l.goOn(ctx, min(1, float64(now)/float64(l.end))) {
			return
		}
		if len(l.flows) > 0 {
			next = l.flows[0].at
		}
		switch wait := next - now; {
		case wait > 0:
			timer.Reset(min(wait, blink))
			select {
			case x := <-l.back:
				l.again(x)
			case <-timer.C:
			case <-ctx.Done():
			}
			n = -1 // there is time to look
		case len(l.flows) == 0:
			return
		case now >= l.end+grace:
			l.miss()
			return
		default:
			l.send(l.flows[0], now)
		}
	}
}

// again takes a backlogged flow back after an answer.
func (l *live) again(x *flow) {
	if !x.over() {
		heap.Push(&l.flows, x)
	}
}

// miss counts the requests that there was no time for.
func (l *live) miss() {
	for _, x := range l.flows {
		for x.Arrivals != config.Backlogged && !x.over() {
			l.missed++
			x.next(htb.Decision{}, nil, l.opts.Step)
		}
	}
}

// to deals out the next request of a flow.
func (l *live) to(x *flow) int {
	if x.Arrivals == config.Backlogged && l.even {
		return x.index % len(l.gateways)
	}
	at := l.deals[x.index].Float64() * l.skew[len(l.skew)-1]
	return min(len(l.skew)-1, slices.IndexFunc(l.skew, func(upTo float64) bool { return at < upTo }))
}

// send makes the request that is due, of the first flow.
func (l *live) send(x *flow, now time.Duration) {
	g, leaf, cost := l.to(x), x.leaf, x.cost
	open := x.Arrivals != config.Backlogged
	if open {
		l.sent++
		if l.lateness.Add(now - x.at); now-x.at > late {
			l.slow++
		}
	}
	if !l.asks[x.index] {
		d, err := l.decide(g, x, leaf, cost)
		if !open {
			x.at = l.elapsed() // it waits from the answer on
		}
		l.flows.next(d, err, l.opts.Step)
		return
	}
	if open {
		l.flows.next(htb.Decision{}, nil, l.opts.Step)
	} else {
		heap.Pop(&l.flows)
	}
	l.slots[g] <- struct{}{} // each is free again after the gateway's timeout at most
	l.asking.Go(func() {
		d, err := l.decide(g, x, leaf, cost)
		<-l.slots[g]
		if !open {
			x.at = l.elapsed()
			x.next(d, err, l.opts.Step)
			l.back <- x
		}
	})
}

// decide has a gateway decide on a request of the flow x, and books the answer. It is not
// cut short when the run is: what is under way counts.
func (l *live) decide(g int, x *flow, leaf *leaf, cost int64) (htb.Decision, error) {
	begin := time.Now()
	d, err := l.gateways[g].Allow(context.Background(), cost, leaf.names...)
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(err, htb.ErrCost) {
		if l.err == nil {
			l.err = &flowError{x.Line, err}
		}
		l.stop()
		return d, err
	}
	now := l.elapsed()
	l.advance(htb.Time(min(now, l.end)), l.backlogged)
	n := l.book(leaf, cost, x.Arrivals != config.Backlogged, d, err)
	l.took.Add(took)
	at := &l.each[g]
	at.Decisions++
	at.Wants += cost
	if d.Outage {
		at.Outage++
	}
	if d.Allowed {
		at.Gets += cost
		n.exceed(now.Seconds(), cost)
	}
	return d, err
}
