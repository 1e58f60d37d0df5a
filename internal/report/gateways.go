package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sluice/sluice/internal/result"
)

// windows are the columns of a run of several gateways.
var windows = []column{
	{"worst over", func(r *result.Row, _ float64) string {
		return ofShared(r, func(s *result.Shared) float64 { return s.Over })
	}, 0},
	{"bound", func(r *result.Row, _ float64) string {
		return ofShared(r, func(s *result.Shared) float64 { return s.Bound })
	}, 0},
}

// ofShared writes a number of a class that gateways share, "-" of others.
func ofShared(r *result.Row, number func(*result.Shared) float64) string {
	if r.Shared == nil {
		return "-"
	}
	return amount(round(number(r.Shared)))
}

// gateways writes what a run of several measured beside its rows.
func gateways(w io.Writer, run *result.Run) {
	g := run.Gateways
	all, calls := g.Sum(), g.Calls
	who := "1 gateway"
	if n := len(g.Each); n > 1 {
		if who = fmt.Sprintf("%d gateways, equal load", n); slices.Min(g.Skew) != slices.Max(g.Skew) {
			who = fmt.Sprintf("%d gateways, load %s", n, parts(g.Skew))
		}
	}
	fmt.Fprintf(w, "%s: %s decisions in real time, p50 %s ms, p99 %s ms; %s by the outage policy\n",
		who, group(all.Decisions), fine(g.Took.P50), fine(g.Took.P99), group(all.Outage))
	fmt.Fprintf(w, "Redis: %s calls a decision: %s script calls (%s for decisions, %s in exchanges, %s heartbeats) in %s round trips; %s failed\n",
		strconv.FormatFloat(g.PerDecision(), 'f', 4, 64), group(calls.All()), group(calls.Decisions), group(calls.Exchanges), group(calls.Heartbeats), group(calls.Trips), group(calls.Failed))
	fmt.Fprintln(w, "worst over: by how much any window went over cburst + ceil*window; bound: the most it may while Redis answers")
}

// parts writes a skew as it is given.
func parts(skew []float64) string {
	var out []string
	for _, x := range skew {
		out = append(out, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return strings.Join(out, ":")
}

// fine writes milliseconds with three digits after the point.
func fine(ms float64) string { return strconv.FormatFloat(ms, 'f', 3, 64) }

type jsonGateways struct {
	Count      int                   `json:"count"`
	Decisions  int64                 `json:"decisions"`
	Outage     int64                 `json:"outage_decisions"`
	Calls      jsonCalls             `json:"calls"`
	PerOne     float64               `json:"calls_per_decision"`
	Trips      int64                 `json:"round_trips"`
	Failed     int64                 `json:"failed_calls"`
	Outages    int64                 `json:"outages"`
	DecisionMS jsonDelay             `json:"decision_ms"`
	LateMS     jsonDelay             `json:"late_ms"`
	Missed     int64                 `json:"missed"`
	Each       []jsonGateway         `json:"each"`
	Classes    map[string]jsonShared `json:"classes"`
}

type jsonCalls struct {
	Decisions  int64 `json:"decisions"`
	Exchanges  int64 `json:"exchanges"`
	Heartbeats int64 `json:"heartbeats"`
}

type jsonGateway struct {
	Part      float64 `json:"part"`
	Decisions int64   `json:"decisions"`
	Outage    int64   `json:"outage_decisions"`
	Wants     int64   `json:"wants"`
	Gets      int64   `json:"gets"`
}

type jsonShared struct {
	Store  string   `json:"store,omitempty"`
	Sync   float64  `json:"sync,omitempty"` // seconds
	Over   float64  `json:"worst_over"`
	Bound  float64  `json:"bound"`
	Beyond *float64 `json:"total_over,omitempty"`
}

func gatewaysOf(run *result.Run) *jsonGateways {
	g := run.Gateways
	if g == nil {
		return nil
	}
	all, c := g.Sum(), g.Calls
	out := &jsonGateways{
		Count: len(g.Each), Decisions: all.Decisions, Outage: all.Outage,
		Calls: jsonCalls{c.Decisions, c.Exchanges, c.Heartbeats}, PerOne: g.PerDecision(), Trips: c.Trips, Failed: c.Failed, Outages: c.Outages,
		DecisionMS: jsonDelay(g.Took), LateMS: jsonDelay(g.Late), Missed: g.Missed,
		Each: []jsonGateway{}, Classes: map[string]jsonShared{},
	}
	for i, x := range g.Each {
		out.Each = append(out.Each, jsonGateway{g.Skew[i], x.Decisions, x.Outage, x.Wants, x.Gets})
	}
	for _, r := range run.Rows {
		if r.Shared == nil {
			continue
		}
		s := jsonShared{Sync: r.Shared.Sync.Seconds(), Over: round(r.Shared.Over), Bound: round(r.Shared.Bound)}
		if s.Sync == 0 {
			s.Store = "redis"
		}
		if !r.Rest {
			beyond := round(r.Shared.Beyond)
			s.Beyond = &beyond
		}
		out.Classes[r.Path] = s
	}
	return out
}
