package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/go-sluice/sluice/gateway"
	"github.com/go-sluice/sluice/internal/redistest"
)

const gateways = 2

// limiter is what stands before the backend; make returns how it decides and how it ends.
type limiter struct {
	name string
	make func(p plan, s *redistest.Server) (allow, func() error, error)
}

var limiters = []limiter{
	{"redis_rate, fails open", perRequest},
	{"sluice, store: redis, open", sluice(stored, "open")},
	{"sluice, store: redis, local", sluice(stored, "local")},
	{"sluice, store: redis, closed", sluice(stored, "closed")},
	{"sluice, sync, local", sluice(shared, "local")},
	{"sluice, sync, closed", sluice(shared, "closed")},
}

// perRequest asks Redis about each request, and admits it when the budget is over.
func perRequest(p plan, s *redistest.Server) (allow, func() error, error) {
	redis.SetLogger(quiet{})
	var clients [gateways]*redis.Client
	var each [gateways]*redis_rate.Limiter
	for g := range each {
		clients[g] = s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		each[g] = redis_rate.NewLimiter(clients[g])
	}
	limit := redis_rate.PerSecond(p.size)
	limit.Burst = burst(p)
	ask := func(ctx context.Context, g int, _ string) bool {
		ctx, cancel := context.WithTimeout(ctx, p.budget)
		defer cancel()
		r, err := each[g].Allow(ctx, "backend", limit)
		return err != nil || r.Allowed > 0
	}
	return ask, func() (err error) {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}, nil
}

// burst is a tenth of a second's worth: once, 100 ms may have twice what they should.
func burst(p plan) int { return p.size / 10 }

// quiet logs nothing: a line for each failure to connect would be what is measured.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// form is a tree file, and how a client's requests are called in it.
type form struct {
	text  string
	names func(client string) []string
}

// One bucket in Redis, which every request asks.
var stored = form{`
tree: incident
redis: {addr: %[1]s, timeout: %[2]v, onOutage: %[3]s}
global:
  rate: 1000000/s
  children:
    backend: {rate: %[4]d/s, burst: %[5]d, store: redis}
`, func(string) []string { return []string{"backend"} }}

// A copy of it in each gateway, and a limit for each client below.
var shared = form{`
tree: incident
redis: {addr: %[1]s, timeout: %[2]v, onOutage: %[3]s}
global:
  rate: %[4]d/s
  burst: %[5]d
  sync: %[6]v
  children:
    "*": {rate: 1/s, ceil: %[4]d/s, max: 1M, also: [10/s]}
`, func(client string) []string { return []string{client} }}

func sluice(f form, onOutage string) func(plan, *redistest.Server) (allow, func() error, error) {
	return func(p plan, s *redistest.Server) (allow, func() error, error) {
		dir, err := os.MkdirTemp("", "sluice-incident")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "tree.yaml")
		text := fmt.Sprintf(f.text, s.Socket, p.budget, onOutage, p.size, burst(p), p.sync)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, nil, err
		}
		var each []*gateway.Gateway
		end := func() (err error) {
			for _, g := range each {
				err = errors.Join(err, g.Close(context.Background()))
			}
			return err
		}
		for range gateways {
			g, err := gateway.Load(context.Background(), path, gateway.Options{Gateways: gateways, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return nil, nil, errors.Join(err, end())
			}
			each = append(each, g)
		}
		return func(ctx context.Context, g int, client string) bool {
			d, err := each[g].Allow(ctx, 1, f.names(client)...)
			return err == nil && d.Allowed
		}, end, nil
	}
}
