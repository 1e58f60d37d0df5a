package result

import "time"

// Gateways is what a run of several gateways measured beside its rows, in real time.
type Gateways struct {
	Skew   []float64 // the parts in which the load was dealt out, one for each gateway
	Each   []Gateway
	Took   Delay // of decisions
	Late   Delay // of requests: how long after its time one was asked
	Missed int64 // requests that were due, and not asked when the run ended
	Calls  Calls
}

// Gateway is what one of them decided.
type Gateway struct {
	Decisions   int64
	Outage      int64 // of those, by the outage policy
	Wants, Gets int64 // cost units
}

// Calls counts what Redis was asked. Decisions of one key that came together may go in
// one call, and calls in one round trip.
type Calls struct {
	Decisions  int64 // script calls for decisions
	Exchanges  int64 // script calls that report on a class with sync
	Heartbeats int64 // script calls that count gateways
	Trips      int64 // round trips with any of these
	Failed     int64 // decisions, exchanges and heartbeats without an answer
	Outages    int64 // times that a gateway found Redis gone
}

// All returns the script calls.
func (c Calls) All() int64 { return c.Decisions + c.Exchanges + c.Heartbeats }

// Sum adds up what each gateway decided.
func (g *Gateways) Sum() (all Gateway) {
	for _, x := range g.Each {
		all.Decisions += x.Decisions
		all.Outage += x.Outage
		all.Wants += x.Wants
		all.Gets += x.Gets
	}
	return all
}

// PerDecision returns the script calls per decision, 0 of none.
func (g *Gateways) PerDecision() float64 {
	if n := g.Sum().Decisions; n > 0 {
		return float64(g.Calls.All()) / float64(n)
	}
	return 0
}

// Shared is what gateways admitted together of a class, in cost units.
type Shared struct {
	Sync   time.Duration // how often it is reconciled; 0: it is kept in Redis
	CBurst int64
	Over   float64 // the most that any window held above cburst + ceil*window; 0 if none did
	Bound  float64 // the most that Over may be while Redis answers
	Beyond float64 // what the whole run admitted above cburst + ceil*time; not of the row path/*
}
