package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/gateway"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redisclient"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/sim"
)

const (
	// greeting is how long the servers may take to answer before a run.
	greeting = 5 * time.Second
	// parting is how long the end of a run may take.
	parting = 2 * time.Second
	// connections are those that each gateway is given before the run: for lone decisions,
	// for two pipelines of them, and for exchanges.
	connections = 4
)

// What go-redis logs of each connection that fails is counted and told at the end.
func init() { logging.Disable() }

// live prepares a run in real time: mistakes come before the first call.
func (f *runFlags) live(cmd *cobra.Command, tree *config.File) (func(context.Context, *config.File, func(float64)) (*result.Run, error), error) {
	load, err := readLoad(f.load, f.tree, tree.Unit)
	if err != nil {
		return nil, err
	}
	o := sim.Options{Step: f.step, Seed: f.seed, Top: f.top}
	if o.Step == 0 {
		o.Step = time.Second
	}
	if err := steps(load.Duration, o.Step); err != nil {
		return nil, err
	}
	servers, err := f.servers(tree)
	if err != nil {
		return nil, err
	}
	skew, err := f.parts()
	if err != nil {
		return nil, err
	}
	if !anyShared(tree.Root) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: no class says sync or store: redis, so nothing is shared: each gateway alone polices the whole limit\n", tree.Name)
	}
	return func(ctx context.Context, tree *config.File, bar func(float64)) (*result.Run, error) {
		p, err := join(ctx, tree, servers, f.gateways)
		if err != nil {
			return nil, err
		}
		defer p.leave()
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "in real time: this takes %v; Ctrl-C ends it early, with what was measured\n", load.Duration)
		}
		o.Progress = bar
		run, err := sim.Live(ctx, tree, load, p.deciders(), skew, o)
		if run != nil && run.Gateways != nil {
			p.report(run)
		}
		return run, wrong(err)
	}, nil
}

// party is the gateways of a run.
type party struct {
	servers  *config.Redis
	tree     string // in keys
	gateways []*gateway.Gateway
	clients  []redis.UniversalClient
	calls    counter
	first    failure
}

// join connects gateways to the servers. That one of them does not answer is an error:
// by the outage policy alone there is nothing to measure.
func join(ctx context.Context, tree *config.File, servers *config.Redis, n int) (_ *party, err error) {
	p := &party{servers: servers, tree: runTree(tree.Tree)}
	defer func() {
		if err != nil {
			p.leave()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	greet, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	for range n {
		client, err := redisclient.New(servers)
		if err != nil {
			return nil, inputError{fmt.Errorf("htbsim: %s: %s", tree.Name, strings.ReplaceAll(err.Error(), "redisclient: ", ""))}
		}
		p.clients = append(p.clients, client)
		if err := redisclient.Warm(greet, client, connections); err != nil {
			return nil, p.absent(err)
		}
		client.AddHook(&p.calls)
		g, err := gateway.New(greet, tree.Root, client, gateway.Options{
			Tree: p.tree, Timeout: servers.Timeout, OnOutage: outages[servers.OnOutage], Gateways: n,
			Logger: slog.New(slog.DiscardHandler), Observe: p.first.observe,
		})
		if err != nil {
			return nil, inputError{fmt.Errorf("htbsim: %s: %w", tree.Name, err)}
		}
		p.gateways = append(p.gateways, g)
		if err := p.first.get(); err != nil {
			return nil, p.absent(err)
		}
	}
	return p, nil
}

var outages = map[string]htb.Outage{"": htb.Local, "local": htb.Local, "closed": htb.Closed, "open": htb.Open}

// runTree makes the first part of keys: that of the tree, and what no other run has.
func runTree(name string) string {
	suffix := "-htbsim-" + strings.ToLower(rand.Text()[:10])
	return name[:min(len(name), redisgcra.MaxName-len(suffix))] + suffix
}

// absent says that Redis is not there, or does not do what it is asked.
func (p *party) absent(err error) error {
	at, why := strings.Join(p.servers.Addrs, ", "), strings.TrimPrefix(err.Error(), "redisclient: ")
	if _, answered := errors.AsType[redis.Error](err); answered {
		return inputError{fmt.Errorf("htbsim: Redis at %s refuses: %s: look at what the redis: block says, and what the server lets that user do", at, why)}
	}
	return inputError{fmt.Errorf("htbsim: Redis at %s does not answer: %s: start it, or give --redis another address", at, why)}
}

func (p *party) deciders() (out []sim.Gateway) {
	for _, g := range p.gateways {
		out = append(out, g)
	}
	return out
}

// report adds to a run what its gateways asked Redis.
func (p *party) report(run *result.Run) {
	c := &run.Gateways.Calls
	c.Decisions, c.Exchanges, c.Heartbeats, c.Trips = p.calls.decisions.Load(), p.calls.exchanges.Load(), p.calls.heartbeats.Load(), p.calls.trips.Load()
	for _, g := range p.gateways {
		s := g.Stats()
		c.Failed += s.Failed
		c.Outages += s.Outages
	}
	all := run.Gateways.Sum()
	switch {
	case c.Failed > 0 && all.Outage == 0:
		run.Notes = append(run.Notes, fmt.Sprintf("Redis did not answer %d calls within their time; no decision had to be made without it", c.Failed))
	case c.Failed > 0:
		policy := p.servers.OnOutage
		if policy == "" {
			policy = "local"
		}
		run.Notes = append(run.Notes, fmt.Sprintf("Redis did not answer %d calls, and was given up %d times: %d of %d decisions are by the outage policy, %s, for which the bounds do not hold",
			c.Failed, c.Outages, all.Outage, all.Decisions, policy))
	}
}

// leave ends the gateways, and takes their keys away.
func (p *party) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	var all sync.WaitGroup
	for _, g := range p.gateways {
		all.Go(func() { _ = g.Close(ctx) }) // Redis may be gone, and its keys expire
	}
	all.Wait()
	p.calls.forget(ctx, p.clients)
	for _, c := range p.clients {
		_ = c.Close()
	}
}

// failure keeps the first error of a call.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) observe(c gateway.Call) {
	if c.Err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = c.Err
	}
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
