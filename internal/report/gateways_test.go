package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/result"
)

// ofGateways is the sample as gateways would have made it.
func ofGateways() *result.Run {
	run := sample()
	run.Rows[0].Shared = &result.Shared{Sync: 100 * time.Millisecond, CBurst: 50, Over: 12.3456, Bound: 250, Beyond: 1.5}
	run.Rows[1].Shared = &result.Shared{CBurst: 5, Over: 0.25}
	rest := &run.Rows[len(run.Rows)-1]
	rest.Rest, rest.Shared = true, &result.Shared{CBurst: 5, Over: 1e-9}
	run.Gateways = &result.Gateways{
		Skew:   []float64{5, 1, 0.5},
		Each:   []result.Gateway{{Decisions: 5000, Outage: 3, Wants: 6000, Gets: 4000}, {Decisions: 1000, Wants: 1500, Gets: 1400}, {}},
		Took:   result.Delay{P50: 0.001, P99: 1.25, Max: 5.5},
		Late:   result.Delay{P50: 0.5, P99: 1.125, Max: 7},
		Missed: 2,
		Calls:  result.Calls{Decisions: 1200, Exchanges: 300, Heartbeats: 12, Trips: 700, Failed: 4, Outages: 1},
	}
	return run
}

func TestTableOfGateways(t *testing.T) {
	got := tableOf(t, ofGateways(), Look{})
	golden(t, "gateways", got)
	narrow := tableOf(t, ofGateways(), Look{Width: 100})
	for _, column := range []string{"worst over", "bound"} {
		require.Contains(t, strings.SplitN(narrow, "\n", 3)[1], column, "these are what the run was for")
		require.NotContains(t, tableOf(t, sample(), Look{}), column)
	}
	equal := ofGateways()
	equal.Gateways.Skew = []float64{2, 2, 2}
	require.Contains(t, tableOf(t, equal, Look{}), "\n3 gateways, equal load: 6,000 decisions")
	one := ofGateways()
	one.Gateways.Skew, one.Gateways.Each = one.Gateways.Skew[:1], one.Gateways.Each[:1]
	require.Contains(t, tableOf(t, one, Look{}), "\n1 gateway: 5,000 decisions in real time")
}

// The key stands beside the contract, and changes nothing of it.
func TestJSONOfGateways(t *testing.T) {
	var with, without bytes.Buffer
	require.NoError(t, JSON(&with, ofGateways()))
	require.NoError(t, JSON(&without, sample()))
	golden(t, "gateways.json", with.String())
	var a, b map[string]any
	require.NoError(t, json.Unmarshal(with.Bytes(), &a))
	require.NoError(t, json.Unmarshal(without.Bytes(), &b))
	require.NotNil(t, a["gateways"])
	delete(a, "gateways")
	require.Equal(t, b, a)
}

// A run without a decision has no calls a decision.
func TestNoDecision(t *testing.T) {
	run := &result.Run{Mode: "police", Gateways: &result.Gateways{Skew: []float64{1}, Each: []result.Gateway{{}}}}
	require.Contains(t, tableOf(t, run, Look{}), "Redis: 0.0000 calls a decision")
	var b strings.Builder
	require.NoError(t, JSON(&b, run))
	require.NotContains(t, b.String(), "null")
}
