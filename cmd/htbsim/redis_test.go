package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

// decodedGateways is what the JSON says of gateways.
type decodedGateways struct {
	Count, Decisions, Missed int64
	Outage                   int64 `json:"outage_decisions"`
	Calls                    struct{ Decisions, Exchanges, Heartbeats int64 }
	PerDecision              float64 `json:"calls_per_decision"`
	Trips                    int64   `json:"round_trips"`
	Failed                   int64   `json:"failed_calls"`
	Outages                  int64
	DecisionMS               struct{ P50, P99, Max float64 } `json:"decision_ms"`
	Each                     []struct{ Part, Wants, Gets, Decisions float64 }
	Classes                  map[string]struct {
		Store       string
		Sync, Bound float64
		Over        float64  `json:"worst_over"`
		Beyond      *float64 `json:"total_over"`
	}
}

const (
	measuredTree = `tree: api
redis: {addr: "127.0.0.1:1", timeout: 500ms, onOutage: closed}
global:
  rate: 1000/s
  sync: 50ms
  children:
    acme: {rate: 600/s, ceil: 1000/s, burst: 60, sync: 50ms}
    beta: {rate: 200/s, burst: 20}
    free:
      rate: 100/s
      ceil: 400/s
      sync: 50ms
      children:
        "*": {rate: 5/s, ceil: 50/s, burst: 20, store: redis}
`
	measuredLoad = `duration: 1500ms
flows:
  - {class: acme, arrivals: poisson, rate: 1500/s}
  - {class: beta, arrivals: constant, rate: 50/s, cost: {min: 1, max: 4}}
  - {class: "free/*", clients: 5, arrivals: poisson, rate: 200/s}
`
)

// measured runs htbsim against s, and returns the outcome with its JSON read.
func measured(t *testing.T, ctx context.Context, s *redistest.Server, args string) (outcome, decoded) {
	t.Helper()
	o := htbsim(ctx, strings.Fields("run --tree tree.yaml --load load.yaml --json out.json --redis "+s.Socket+" "+args)...)
	require.Equal(t, exitOK, o.code, o.stderr)
	d := decode(t, read(t, "out.json"), "gateways")
	g := d.Gateways
	require.Equal(t, g.Calls.Decisions+g.Calls.Exchanges+g.Calls.Heartbeats, int64(g.PerDecision*float64(g.Decisions)+.5))
	var wants, gets, decisions float64
	for _, x := range g.Each {
		wants, gets, decisions = wants+x.Wants, gets+x.Gets, decisions+x.Decisions
	}
	require.Equal(t, []float64{float64(d.Classes["global"].Wants), float64(d.Classes["global"].Gets), float64(g.Decisions)}, []float64{wants, gets, decisions}, "gateways add up")
	return o, d
}

// Four gateways, one of which has five times the load of each other, stay within the
// bounds, ask Redis for what is kept there only, and leave nothing behind.
func TestRedisRun(t *testing.T) {
	s := redistest.Run(t)
	folder(t, map[string]string{"tree.yaml": measuredTree, "load.yaml": measuredLoad})
	begin := time.Now()
	o, d := measured(t, t.Context(), s, "--gateways 4 --skew 5,1,1,1 --step 500ms --csv out.csv --plot out.svg")
	require.GreaterOrEqual(t, time.Since(begin), 1500*time.Millisecond, "in real time")
	require.Equal(t, "in real time: this takes 1.5s; Ctrl-C ends it early, with what was measured\n", o.stderr)
	require.Regexp(t, `(?m)^4 gateways, load 5:1:1:1: .* decisions in real time, p50 \S+ ms, p99 \S+ ms; 0 by the outage policy$`, o.stdout)
	require.Regexp(t, `(?m)^Redis: 0\.\d{4} calls a decision: .* script calls .* round trips; 0 failed$`, o.stdout)
	require.Contains(t, o.stdout, "worst over bound\n")
	require.NotEmpty(t, read(t, "out.svg"))

	g := d.Gateways
	require.Equal(t, 1.5, d.Seconds)
	require.Equal(t, int64(4), g.Count)
	require.Zero(t, g.Missed)
	require.Zero(t, g.Outage)
	for _, x := range g.Each[1:] {
		require.InDelta(t, 5, g.Each[0].Wants/x.Wants, 2.5)
	}
	require.Positive(t, g.Calls.Decisions)
	require.Positive(t, g.Calls.Exchanges)
	require.Positive(t, g.Trips)
	require.LessOrEqual(t, g.Calls.Decisions, d.Classes["free"].Wants+2*4, "only those ask, and the first ones twice, for want of the script")
	require.LessOrEqual(t, g.DecisionMS.P50, g.DecisionMS.P99)

	require.NotContains(t, g.Classes, "beta", "not shared")
	for _, path := range []string{"global", "acme", "free"} {
		c := g.Classes[path]
		require.Equal(t, .05, c.Sync, path)
		require.LessOrEqual(t, c.Over, c.Bound, path)
		require.LessOrEqual(t, *c.Beyond, c.Over+1e-3, path)
	}
	require.Equal(t, 3*60+4*1000*.05, g.Classes["acme"].Bound)
	for i := range 5 {
		c := g.Classes[fmt.Sprintf("free/client-%d", i+1)]
		require.Equal(t, "redis", c.Store)
		require.Zero(t, c.Bound)
		require.LessOrEqual(t, c.Over, 50*.5, "answers may wait for the timeout, and come together")
	}
	require.Nil(t, g.Classes["free/*"].Beyond)

	n, err := s.Connect(t, nil).DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, n)

	// The same arrivals as on virtual time.
	o = htbsim(t.Context(), strings.Fields("run --tree tree.yaml --load load.yaml --json virtual.json")...)
	require.Equal(t, exitOK, o.code, o.stderr)
	virtual := decode(t, read(t, "virtual.json"))
	for path, c := range virtual.Classes {
		require.Equal(t, c.Wants, d.Classes[path].Wants, path)
	}
}

// Where nothing is shared each gateway admits the whole limit, which is told.
func TestRedisNothingShared(t *testing.T) {
	s := redistest.Run(t)
	load := "duration: 1s\nflows:\n  - {class: a, arrivals: poisson, rate: 2000/s}\n"
	folder(t, map[string]string{"tree.yaml": "tree: api\nglobal:\n  rate: 100/s\n  children:\n    a: {rate: 100/s, burst: 10}\n", "load.yaml": load})
	o, d := measured(t, t.Context(), s, "--gateways 3 --quiet")
	require.Equal(t, "warning: tree.yaml: no class says sync or store: redis, so nothing is shared: each gateway alone polices the whole limit\n", o.stderr)
	require.Empty(t, o.stdout)
	require.Greater(t, d.Classes["a"].Gets, int64(150), "one gateway would admit 110")
	require.Zero(t, d.Gateways.PerDecision)
	require.Empty(t, d.Gateways.Classes)
}

// Redis that dies is the outage policy's business, and told.
func TestRedisDies(t *testing.T) {
	s := redistest.Run(t)
	folder(t, map[string]string{"tree.yaml": measuredTree, "load.yaml": measuredLoad})
	timer := time.AfterFunc(700*time.Millisecond, func() { _ = s.Kill() })
	defer timer.Stop()
	o, d := measured(t, t.Context(), s, "--gateways 2 --step 100ms")
	require.Positive(t, d.Gateways.Outage)
	require.Positive(t, d.Gateways.Failed)
	require.Positive(t, d.Gateways.Outages)
	require.Regexp(t, `(?m)^note: Redis did not answer \d+ calls, .* decisions are by the outage policy, closed, `, o.stdout)
	free := d.Classes["free"].Series
	require.Positive(t, sum(free.Gets[:6]))
	require.Zero(t, free.Gets[14], "closed")
	require.Positive(t, free.Wants[14])
}

// Ctrl-C ends it early, with what was measured.
func TestRedisInterrupt(t *testing.T) {
	s := redistest.Run(t)
	folder(t, map[string]string{"tree.yaml": measuredTree, "load.yaml": strings.Replace(measuredLoad, "1500ms", "1h", 1) + "  - {class: beta, arrivals: backlogged, to: 30m}\n  - {class: free/x, arrivals: backlogged}\n"})
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(1000*time.Millisecond, cancel)
	defer timer.Stop()
	o, d := measured(t, ctx, s, "--gateways 2")
	require.Contains(t, o.stdout, "note: interrupted: this is what was measured until ")
	require.Positive(t, d.Seconds)
	require.Less(t, d.Seconds, 30.)
	require.Positive(t, d.Classes["beta"].Gets)
	require.Positive(t, d.Classes["free/x"].Rejected)
	n, err := s.Connect(t, nil).DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, n)

	files := contents(t)
	cancel()
	require.Equal(t, outcome{exitInput, "", "htbsim: interrupted before the run began: nothing is written\n"},
		htbsim(ctx, strings.Fields("run --tree tree.yaml --load load.yaml --json out.json --redis "+s.Socket)...))
	require.Equal(t, files, contents(t))
}

// With an address of its own a run still takes the password from where the file says,
// and never shows it.
func TestRedisPassword(t *testing.T) {
	const password = "hunter2-and-more"
	s := redistest.Run(t)
	admin := s.Connect(t, func(o *redis.Options) { o.Password = password })
	require.NoError(t, s.Connect(t, nil).ConfigSet(t.Context(), "requirepass", password).Err())
	tree := strings.Replace(measuredTree, "timeout:", "passwordEnv: HTBSIM_TEST_PASSWORD, timeout:", 1)
	folder(t, map[string]string{"tree.yaml": tree, "load.yaml": strings.Replace(measuredLoad, "1500ms", "100ms", 1)})
	t.Setenv("HTBSIM_TEST_PASSWORD", password)
	o, _ := measured(t, t.Context(), s, "")
	require.NotContains(t, o.stdout+o.stderr+read(t, "out.json"), password)

	require.NoError(t, admin.Ping(t.Context()).Err())
	t.Setenv("HTBSIM_TEST_PASSWORD", "wrong-"+password)
	o = htbsim(t.Context(), strings.Fields("run --tree tree.yaml --load load.yaml --redis "+s.Socket)...)
	require.Equal(t, exitInput, o.code)
	require.Regexp(t, "^htbsim: Redis at .* refuses: WRONGPASS .*: look at ", o.stderr)
	require.NotContains(t, o.stderr, password)
}

// A server that answers and does not do what gateways ask is no server to measure.
func TestRedisRefuses(t *testing.T) {
	s := redistest.Run(t)
	folder(t, map[string]string{"tree.yaml": measuredTree, "load.yaml": measuredLoad})
	require.NoError(t, s.Connect(t, nil).Do(t.Context(), "acl", "setuser", "default", "-@scripting").Err())
	o := htbsim(t.Context(), strings.Fields("run --tree tree.yaml --load load.yaml --redis "+s.Socket)...)
	require.Equal(t, exitInput, o.code)
	require.Regexp(t, "^htbsim: Redis at .* refuses: .*NOPERM .*: look at ", o.stderr)
	require.Empty(t, o.stdout)
}

// A cluster is found through the tree file, and nothing is left on any of its nodes.
func TestRedisCluster(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0)
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	tree := strings.Replace(measuredTree, `"127.0.0.1:1"`, fmt.Sprintf("%q, cluster: true", strings.Join(addrs, ", ")), 1)
	folder(t, map[string]string{"tree.yaml": tree, "load.yaml": strings.Replace(measuredLoad, "1500ms", "500ms", 1)})
	o := htbsim(t.Context(), strings.Fields("run --tree tree.yaml --load load.yaml --json out.json --redis file --gateways 2")...)
	require.Equal(t, exitOK, o.code, o.stderr)
	d := decode(t, read(t, "out.json"), "gateways")
	require.Positive(t, d.Gateways.Calls.Decisions)
	require.Positive(t, d.Gateways.Calls.Exchanges)
	require.Zero(t, d.Gateways.Outage)
	for _, n := range c.Nodes {
		left, err := n.Admin().DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Zero(t, left)
	}
}
