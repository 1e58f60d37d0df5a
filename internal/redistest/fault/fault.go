package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sluice/sluice/internal/redistest"
)

// Effect is what a client of the server meets while a fault lasts.
type Effect int

// What a client may meet.
const (
	Answers Effect = iota // an answer as usual, though perhaps late
	Errs                  // an error as answer, see [Fault.Says]
	Hangs                 // no answer before the fault is over
	Breaks                // the end of its connections, and no new ones
)

// Fault is one thing that goes wrong. It is used by one goroutine at a time and can begin
// again after its end.
type Fault struct {
	Name   string
	Effect Effect
	Says   string // the first word of the error that a script that writes ends with, if it Errs
	Loses  bool   // whether the server is empty afterwards

	begin, end func(context.Context) error
}

// Begin breaks what the fault breaks. After an error, End is worth a try.
func (f Fault) Begin(ctx context.Context) error { return f.named("begin", f.begin(ctx)) }

// End mends it.
func (f Fault) End(ctx context.Context) error { return f.named("end", f.end(ctx)) }

// For lets the fault last for d, or until ctx is done, which is then the error. It is over
// when For returns.
func (f Fault) For(ctx context.Context, d time.Duration) error {
	err := f.Begin(ctx)
	if err == nil {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return errors.Join(err, f.End(context.WithoutCancel(ctx)))
}

func (f Fault) named(when string, err error) error {
	if err != nil {
		return fmt.Errorf("fault: %s %s: %w", when, f.Name, err)
	}
	return nil
}

// OfServer lists the faults of a server.
func OfServer(s *redistest.Server) []Fault {
	return []Fault{
		Pause(s), Crash(s), CrashKept(s), FlushAll(s), ScriptFlush(s),
		ReadOnly(s), OutOfMemory(s), Loading(s), FullDisk(s),
	}
}

// OfProxy lists the faults of the way to a server, with a latency of d in each direction.
func OfProxy(p *Proxy, d time.Duration) []Fault {
	return []Fault{Slow(p, d), Cut(p), BlackHole(p), Deaf(p)}
}

// Slow delays what passes the proxy by d in each direction.
func Slow(p *Proxy, d time.Duration) Fault {
	return p.fault("slow", Answers, func() error { p.Delay(ToServer|ToClient, d); return nil })
}

// Cut resets the proxy's connections and refuses new ones.
func Cut(p *Proxy) Fault { return p.fault("cut", Breaks, p.Refuse) }

// BlackHole passes nothing on in either direction; what was held goes on at its end.
func BlackHole(p *Proxy) Fault {
	return p.fault("black hole", Hangs, func() error { p.Hold(ToServer | ToClient); return nil })
}

// Deaf passes commands on and holds their answers: each is done, and nobody knows.
func Deaf(p *Proxy) Fault {
	return p.fault("deaf", Hangs, func() error { p.Hold(ToClient); return nil })
}

func (p *Proxy) fault(name string, effect Effect, begin func() error) Fault {
	return Fault{
		Name: name, Effect: effect,
		begin: func(context.Context) error { return begin() },
		end:   func(context.Context) error { return p.Heal() },
	}
}
