// Package trial leads gateways through a fault of their Redis while callers ask them all
// the time, and notes every decision: for tests, and for the program that reports figures.
package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/gateway"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
	"github.com/go-sluice/sluice/internal/redistest/fault"
)

// Trial is how one is made. All fields are needed.
type Trial struct {
	Timeout, Sync      time.Duration // of the gateways
	Callers            int           // of each gateway
	Every              time.Duration // a caller asks so often
	Before, For, After time.Duration // the fault; After its outage is over
}

// Kind is which of the three classes of a gateway a request is for. All have the same
// limit, and are asked for more.
type Kind uint8

// The classes.
const (
	Stored Kind = iota // a leaf that is kept in Redis
	Shared             // one with sync
	Own                // one that needs no Redis
	kinds
)

func (k Kind) path() []string {
	return [...][]string{{"clients", "alice"}, {"shared"}, {"own"}}[k]
}

// The limit of each class, in requests. A request costs Unit and a little more, so that no
// two cost the same: what is sent twice can be told.
const (
	Rate  = 40 // per second
	Burst = 8
	Unit  = 100_000
)

const tree = `
tree: %s
redis: {addr: "%s", timeout: %v, onOutage: %[1]s}
global:
  rate: 1000000000/s
  children:
    shared: {rate: %[4]d/s, burst: %[5]d, sync: %[6]v}
    own: {rate: %[4]d/s, burst: %[5]d}
    clients:
      rate: 100000000/s
      burst: 10000000
      children:
        "*": {rate: %[4]d/s, burst: %[5]d, store: redis}
`

// Sample is one decision.
type Sample struct {
	At, Took time.Duration // At since the trial began
	Cost     int64
	Kind     Kind
	Allowed  bool
	Outage   bool
}

// End is when the answer came.
func (s Sample) End() time.Duration { return s.At + s.Took }

// State is what a gateway says of Redis since At.
type State struct {
	At        time.Duration
	Open, Out bool // as in gateway.Stats
}

// Run is what one gateway did.
type Run struct {
	OnOutage        htb.Outage
	Samples         []Sample // of each caller in order, one caller after the other
	States          []State
	Asked, Answered int64 // requests of callers, and how many returned
	Errs            []error
	Stats           gateway.Stats // at the end
}

// Result is what a trial found.
type Result struct {
	Fault fault.Fault
	// When Begin of the fault was called and had returned, and when End was and had.
	Begin, Began, End, Ended time.Duration
	Runs                     []*Run // local, closed, open
	Repeats                  int    // decisions that were sent again after they may have run
	Heap                     int64  // bytes more at the end than before the fault
}

// Gateways is how many there are of each tree; but one is idle. It is what makes a part of
// a limit less than all of it.
const Gateways = 2

// Run leads three gateways, one of each outage policy, through the fault that which returns.
func (t Trial) Run(ctx context.Context, which func(*redistest.Server, *fault.Proxy) fault.Fault) (r *Result, err error) {
	dir, err := os.MkdirTemp("", "sluice-trial")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	proxy, err := fault.Before(server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	beats, err := heartbeat(ctx, proxy)
	if err != nil {
		return nil, err
	}
	proxy.Record()

	r = &Result{Fault: which(server, proxy)}
	m := &meeting{Trial: t, begun: time.Now(), over: make(chan struct{})}
	for _, o := range []htb.Outage{htb.Local, htb.Closed, htb.Open} {
		path := filepath.Join(dir, o.String())
		text := fmt.Sprintf(tree, o, proxy.Addr, t.Timeout, Rate*Unit, Burst*Unit, t.Sync)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		var both [Gateways]*gateway.Gateway
		for i := range both {
			g, err := gateway.Load(ctx, path, gateway.Options{Gateways: Gateways, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, g.Close(ctx)) }()
			both[i] = g
		}
		m.asked = append(m.asked, both[Gateways-1])
		r.Runs = append(r.Runs, m.run(ctx, both[Gateways-1], o)) // it has heard of the others
	}
	time.Sleep(t.Before / 2)
	before := heap() // which stops the world: time for that to be over
	time.Sleep(t.Before / 2)
	m.note(&r.Begin)
	err = r.Fault.Begin(ctx)
	m.note(&r.Began)
	if err == nil {
		time.Sleep(t.For)
	}
	m.note(&r.End)
	err = errors.Join(err, r.Fault.End(ctx))
	m.note(&r.Ended)
	if err == nil {
		m.settle(time.Since(m.begun) + longest)
		time.Sleep(t.After)
	}
	r.Heap = heap() - before // not while it holds: what the proxy keeps counts, too
	close(m.over)
	m.all.Wait()
	for _, call := range proxy.Repeats() {
		if call.Script != beats {
			r.Repeats++
		}
	}
	return r, err
}

// heartbeat returns the name of the script of a gateway's heartbeats, which repeat.
func heartbeat(ctx context.Context, p *fault.Proxy) (string, error) {
	client := p.Client(nil)
	defer client.Close()
	l, err := redisgcra.New(client, redisgcra.Options{})
	if err != nil {
		return "", err
	}
	defer l.Close()
	p.Record()
	if _, err := l.Heartbeat(ctx, "nobody", time.Millisecond); err != nil {
		return "", err
	}
	return p.Calls()[0].Script, nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// meeting is what the gateways of a trial have in common.
type meeting struct {
	Trial
	begun time.Time
	over  chan struct{} // closed when callers are to leave
	all   sync.WaitGroup
	costs atomic.Int64
	asked []*gateway.Gateway
}

// longest is how long an end of an outage is waited for.
const longest = 5 * time.Second

// settle waits until no gateway is without Redis, or a time.
func (m *meeting) settle(until time.Duration) {
	for _, g := range m.asked {
		for time.Since(m.begun) < until && (g.Stats().Open || g.Stats().Out) {
			time.Sleep(time.Millisecond)
		}
	}
}

func (m *meeting) note(at *time.Duration) { *at = time.Since(m.begun) }

// run starts the callers of a gateway, and the one who looks at its state.
func (m *meeting) run(ctx context.Context, g *gateway.Gateway, o htb.Outage) *Run {
	r := &Run{OnOutage: o}
	each := make([]Run, m.Callers)
	length := m.Before + m.For + m.After + 2*time.Second
	var callers sync.WaitGroup
	for i := range each {
		each[i].Samples = make([]Sample, 0, length/m.Every) // now, not while the heap is looked at
		callers.Go(func() { m.call(ctx, g, &each[i], i) })
	}
	m.all.Go(func() {
		callers.Wait()
		for _, c := range each {
			r.Samples = append(r.Samples, c.Samples...)
			r.Errs = append(r.Errs, c.Errs...)
			r.Asked += c.Asked
			r.Answered += c.Answered
		}
		r.Stats = g.Stats()
	})
	m.all.Go(func() { m.look(g, r) })
	return r
}

func (m *meeting) call(ctx context.Context, g *gateway.Gateway, r *Run, number int) {
	due := time.Now().Add(m.Every * time.Duration(number) / time.Duration(m.Callers))
	for i := number; ; i++ {
		select {
		case <-m.over:
			return
		case <-time.After(time.Until(due)):
		}
		due = due.Add(m.Every)
		kind := Kind(i) % kinds
		s := Sample{Kind: kind, Cost: Unit + m.costs.Add(1)}
		r.Asked++
		m.note(&s.At)
		d, err := g.Allow(ctx, s.Cost, kind.path()...)
		s.Took = time.Since(m.begun) - s.At
		r.Answered++
		s.Allowed, s.Outage = d.Allowed, d.Outage
		r.Samples = append(r.Samples, s)
		if err != nil {
			r.Errs = append(r.Errs, err)
		}
	}
}

// look notes when the gateway's state changes.
func (m *meeting) look(g *gateway.Gateway, r *Run) {
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		select {
		case <-m.over:
			tick.Stop()
			return
		default:
		}
		stats := g.Stats()
		s := State{Open: stats.Open, Out: stats.Out}
		m.note(&s.At)
		if n := len(r.States); n == 0 || r.States[n-1].Open != s.Open || r.States[n-1].Out != s.Out {
			r.States = append(r.States, s)
		}
	}
}
