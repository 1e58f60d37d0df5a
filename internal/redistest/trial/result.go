package trial

import (
	"slices"
	"time"

	"github.com/go-sluice/sluice/internal/redistest"
	"github.com/go-sluice/sluice/internal/redistest/fault"
)

// Faults are all that gateways are led through: those of a server, and of the way to it.
// latency is that of a trip, there and back.
func Faults(latency time.Duration) []func(*redistest.Server, *fault.Proxy) fault.Fault {
	var all []func(*redistest.Server, *fault.Proxy) fault.Fault
	for i := range fault.OfServer(nil) {
		all = append(all, func(s *redistest.Server, _ *fault.Proxy) fault.Fault { return fault.OfServer(s)[i] })
	}
	for i := range fault.OfProxy(nil, 0) {
		all = append(all, func(_ *redistest.Server, p *fault.Proxy) fault.Fault { return fault.OfProxy(p, latency/2)[i] })
	}
	return all
}

// Cuts reports whether no decision can be charged in Redis while the fault holds, in the
// time that a gateway waits.
func (r *Result) Cuts() bool {
	return r.Fault.Effect != fault.Answers && r.Fault.Says != "NOSCRIPT"
}

// During returns the decisions that began and ended while the fault held.
func (r *Result) During(run *Run) []Sample { return between(run, r.Began, r.End) }

func between(run *Run, from, to time.Duration) (some []Sample) {
	for _, s := range run.Samples {
		if s.At >= from && s.End() <= to {
			some = append(some, s)
		}
	}
	return some
}

// Affected returns the decisions that ended after the fault was begun and began before it
// had ended.
func (r *Result) Affected(run *Run) (some []Sample) {
	for _, s := range run.Samples {
		if s.End() >= r.Begin && s.At <= r.Ended {
			some = append(some, s)
		}
	}
	return some
}

// Moment is a time after another, or that it never came.
type Moment struct {
	After time.Duration
	Came  bool
}

// Noticed returns how long after the fault was begun, and before it ended, a gateway said
// that it asks no more, and that it gets no answers to its exchanges.
func (r *Result) Noticed(run *Run) (open, out Moment) {
	for i, s := range run.States {
		if s.At > r.End || i+1 < len(run.States) && run.States[i+1].At <= r.Begin {
			continue
		}
		at := max(0, s.At-r.Begin) // 0: it was so before
		if s.Open && !open.Came {
			open = Moment{at, true}
		}
		if s.Out && !out.Came {
			out = Moment{at, true}
		}
	}
	return open, out
}

// Recovered returns how long after the fault had ended the first decision was made by
// Redis again, and a gateway said that it has answers to its exchanges.
func (r *Result) Recovered(run *Run) (asks, in Moment) {
	for _, s := range run.Samples {
		if s.Kind != Stored || s.Outage || s.At < r.End {
			continue
		}
		if at := max(0, s.End()-r.Ended); !asks.Came || at < asks.After {
			asks = Moment{at, true}
		}
	}
	for i, s := range run.States { // the last change counts
		if in.Came = !s.Out; in.Came && i > 0 && run.States[i-1].Out {
			in.After = max(0, s.At-r.Ended)
		}
	}
	return asks, in
}

// Latencies returns how long decisions of a kind took, in order.
func Latencies(samples []Sample, kind Kind) []time.Duration {
	var all []time.Duration
	for _, s := range samples {
		if s.Kind == kind {
			all = append(all, s.Took)
		}
	}
	slices.Sort(all)
	return all
}

// Quantile returns that of sorted, 0 if there are none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
