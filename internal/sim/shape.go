package sim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
	"github.com/go-sluice/sluice/queue"
)

// backlog is how many requests a backlogged flow keeps queued, as in the recordings
// from the Linux kernel: enough for its queue never to run empty.
const backlog = 17

// shaper drives a scheduler on virtual time.
type shaper struct {
	*run
	sched *htb.Scheduler
	flows flowHeap

	expiry *queue.Waiting[*request] // what is queued, by when it has waited too long
	served *queue.Waiting[*request] // what is released and not done
	busy   int
	pool   int
	seq    int
	next   htb.Time // the scheduler has nothing before
}

// request is an item in the scheduler, or at the downstream after it.
type request struct {
	item htb.Item
	flow *flow
	node *node
	seq  int
	due  htb.Time // of expiry, or of being done
}

// Shape runs the tree of f, which queues instead of rejecting, under a load. When ctx
// ends it returns what was measured until then, with the error of ctx.
func Shape(ctx context.Context, f *config.File, l *config.LoadFile, o Options) (*result.Run, error) {
	s, err := newShaper(f, o)
	if err != nil {
		return nil, err
	}
	return s.load(ctx, l)
}

// ShapeTrace is Shape for a trace.
func ShapeTrace(ctx context.Context, f *config.File, path string, sum trace.Summary, t trace.Options, o Options) (*result.Run, error) {
	s, err := newShaper(f, o)
	if err != nil {
		return nil, err
	}
	x := &flow{Flow: config.Flow{Arrivals: config.Constant}}
	err = s.replay(ctx, path, sum, t, func(now htb.Time, l *leaf, cost int64) error {
		if err := s.until(now, nil); err != nil {
			return err
		}
		s.advance(now, nil)
		x.leaf, x.cost = l, cost
		if err := s.enqueue(now, x); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return s.events(now)
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		if err := s.until(htb.Time(sum.Span), nil); err != nil {
			return nil, err
		}
		s.advance(htb.Time(sum.Span), nil)
	}
	return s.done(ctx, nil)
}

// until does all that happens before a time.
func (s *shaper) until(end htb.Time, backlogged []*flow) error {
	for at := s.nextEvent(); at < end; at = s.nextEvent() {
		s.advance(at, backlogged)
		if err := s.events(at); err != nil {
			return err
		}
	}
	return nil
}

func (s *shaper) done(ctx context.Context, backlogged []*flow) (*result.Run, error) {
	run, err := s.finish(ctx, backlogged)
	run.Mode = "shape"
	return run, err
}

func newShaper(f *config.File, o Options) (*shaper, error) {
	d := htb.Strict
	if f.Semantics == "kernel" {
		d = htb.Kernel
	}
	sched, err := htb.NewScheduler(f.Root, d)
	if err != nil {
		return nil, err
	}
	spec := f.Root.ResolvedShape(d)
	return &shaper{
		run: &run{
			file: f, lead: sched.Leads, root: newNode(&spec, nil, ""), opts: o,
			division:   division{length: o.Step.Seconds(), queued: true, kernel: d == htb.Kernel},
			impossible: map[*htb.Spec]*impossible{},
		},
		sched: sched, pool: f.Settings.Pool,
		expiry: queue.NewWaiting[*request](), served: queue.NewWaiting[*request](), next: math.MaxInt64,
	}, nil
}

func (s *shaper) load(ctx context.Context, l *config.LoadFile) (*result.Run, error) {
	l = byID(s.file, l)
	if err := s.check(l); err != nil {
		return nil, err
	}
	s.ends(l.Duration)
	var backlogged []*flow
	s.flows, backlogged = startFlows(flowsOf(l, s.opts.Seed))
	end := htb.Time(l.Duration)
	for n := 0; ; n++ {
		at := s.nextEvent()
		if at >= end {
			break
		}
		if n%4096 == 0 && !s.goOn(ctx, float64(at)/float64(end)) {
			break
		}
		s.advance(at, backlogged)
		if err := s.events(at); err != nil {
			return nil, err
		}
	}
	if ctx.Err() == nil {
		s.advance(end, backlogged)
	}
	return s.done(ctx, backlogged)
}

// byID returns the load with the paths of classes that go by their id.
func byID(f *config.File, l *config.LoadFile) *config.LoadFile {
	if f.Paths == nil {
		return l
	}
	m := *l
	m.Flows = slices.Clone(l.Flows)
	for i := range m.Flows {
		if path, ok := f.Paths[htb.Path(m.Flows[i].Class...)]; ok {
			m.Flows[i].Class = path
		}
	}
	return &m
}

// nextEvent returns when something happens next.
func (s *shaper) nextEvent() htb.Time {
	at := htb.Time(math.MaxInt64)
	if len(s.flows) > 0 {
		at = htb.Time(s.flows[0].at)
	}
	if t, _, _, ok := s.expiry.First(); ok {
		at = min(at, t)
	}
	if t, _, _, ok := s.served.First(); ok {
		at = min(at, t)
	}
	if s.pool == 0 || s.busy < s.pool {
		at = min(at, s.next)
	}
	return at
}

// events does all that is due: what is done makes room, what waited too long goes,
// what arrives is queued, and what has its turn is released.
func (s *shaper) events(now htb.Time) error {
	for {
		at, seq, _, ok := s.served.First()
		if !ok || at > now {
			break
		}
		s.served.Remove(at, seq)
		s.busy--
		s.next = now
	}
	for {
		at, seq, q, ok := s.expiry.First()
		if !ok || at > now {
			break
		}
		s.expiry.Remove(at, seq)
		s.sched.Cancel(&q.item, htb.DropMaxWait)
		q.node.leave(s.step, q.item.Cost, func(r *row) { r.expired += q.item.Cost })
		s.refill(now, q.flow)
	}
	for len(s.flows) > 0 && htb.Time(s.flows[0].at) <= now {
		x := s.flows[0]
		if x.Arrivals == config.Backlogged { // from now on each that leaves is followed by another
			heap.Pop(&s.flows)
			for range backlog {
				if err := s.enqueue(now, x); err != nil {
					return err
				}
				x.draw()
			}
			continue
		}
		if err := s.enqueue(now, x); err != nil {
			return err
		}
		s.flows.next(htb.Decision{Allowed: true}, nil, s.opts.Step)
	}
	for s.pool == 0 || s.busy < s.pool {
		item, next, ok := s.sched.Dequeue(now)
		if s.next = next; !ok {
			break
		}
		s.release(now, item.Value.(*request))
	}
	return nil
}

// enqueue puts the flow's next request into its queue.
func (s *shaper) enqueue(now htb.Time, x *flow) error {
	n := s.find(x.leaf)
	q := &request{flow: x, node: n, seq: s.seq}
	s.seq++
	q.item = htb.Item{Cost: x.cost, Value: q}
	s.booked = true
	n.arrive(s.step, x.cost)
	if x.Arrivals != config.Backlogged {
		n.offer(s.step, float64(x.cost))
	}
	err := s.sched.Enqueue(now, &q.item, x.leaf.names...)
	switch {
	case errors.Is(err, htb.ErrFull):
		n.leave(s.step, x.cost, func(r *row) { r.dropped += q.item.Cost })
		return nil
	case err != nil:
		return &config.Error{File: s.file.Name, Line: x.Line, Msg: err.Error()}
	}
	wait := n.spec.MaxWait
	if wait == 0 {
		wait = htb.DefaultMaxWait
	}
	q.due = now.Add(wait)
	if x.Arrivals != config.Backlogged { // those wait as long as it takes
		s.expiry.Add(q.due, q.seq, q)
	}
	s.next = now
	return nil
}

// release books what the scheduler let go.
func (s *shaper) release(now htb.Time, q *request) {
	s.expiry.Remove(q.due, q.seq)
	s.booked = true
	q.node.leave(s.step, q.item.Cost, nil)
	q.node.pass(s.step, q.item.Cost, q.item.Borrowed(), time.Duration(now-q.item.Queued()))
	if s.pool > 0 || q.flow.Service.Mean > 0 {
		s.busy++
		q.due = now.Add(q.flow.service())
		s.served.Add(q.due, q.seq, q)
	}
	s.refill(now, q.flow)
}

// refill keeps a backlogged flow backlogged.
func (s *shaper) refill(now htb.Time, x *flow) {
	if x.Arrivals == config.Backlogged && now < htb.Time(x.To) {
		_ = s.enqueue(now, x) // the class was found before
		x.draw()
	}
}
