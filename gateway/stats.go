package gateway

import (
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Kind is what a call to Redis was for.
type Kind uint8

// The kinds of calls.
const (
	// Ask is a decision on a leaf that is kept in Redis. Several that go in one round
	// trip are a call each.
	Ask Kind = iota
	// Exchange reports on classes with sync, and reads back; one round trip.
	Exchange
	// Heartbeat counts gateways.
	Heartbeat
)

// String names k as metrics do.
func (k Kind) String() string { return [...]string{"ask", "exchange", "heartbeat"}[k] }

// Call is one call to Redis, as [Options.Observe] is told.
type Call struct {
	Kind     Kind
	Requests int // decisions, or classes reported on
	Took     time.Duration
	Err      error // nil if Redis answered
}

// Stats are counters since the gateway was made, and how it is now.
type Stats struct {
	Asked      int64 // decisions for which Redis was asked
	Failed     int64 // of those, and of exchanges and heartbeats, without an answer
	Alone      int64 // decisions by the outage policy
	Exchanges  int64 // round trips
	Reports    int64 // classes reported on in those
	Heartbeats int64
	Outages    int64 // times that Redis ceased to answer decisions, or exchanges

	Gateways int  // heard of lately, this one included
	Open     bool // the breaker is: decisions do not ask Redis
	Out      bool // the outage policy holds for classes with sync
}

type counters struct {
	asked, failed, alone, exchanges, reports, heartbeats, opened atomic.Int64
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	c := &g.counters
	return Stats{
		Asked: c.asked.Load(), Failed: c.failed.Load(), Alone: c.alone.Load(),
		Exchanges: c.exchanges.Load(), Reports: c.reports.Load(), Heartbeats: c.heartbeats.Load(), Outages: c.opened.Load(),
		Gateways: int(g.gateways.Load()), Open: g.breaker.State() != gobreaker.StateClosed, Out: g.out.Load(),
	}
}

// observe counts a call, and tells of it.
func (g *Gateway) observe(c Call) {
	switch c.Kind {
	case Ask:
		g.counters.asked.Add(1)
	case Exchange:
		g.counters.exchanges.Add(1)
		g.counters.reports.Add(int64(c.Requests))
	case Heartbeat:
		g.counters.heartbeats.Add(1)
	}
	if c.Err != nil {
		g.counters.failed.Add(1)
	}
	if g.opts.Observe != nil {
		g.opts.Observe(c)
	}
}
