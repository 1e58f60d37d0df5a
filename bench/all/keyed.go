package main

import (
	"context"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	cache "github.com/patrickmn/go-cache"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

// keyed is a limiter that has a limit for each name.
type keyed struct {
	decide func(name string) (allowed bool)
	live   func() int // how many it keeps now; nil: it does not say
}

// policy is what every name may do, and when it may be forgotten.
type policy struct {
	perSecond int
	names     int           // that it is for; an LRU's size
	rest      time.Duration // after which an unused limit is as good as new, and goes; 0: they all stay
}

// lasting is a policy under which everything passes and n names stay.
func lasting(n int) policy { return policy{perSecond: rig.Fast / 100, names: n} }

// passing is one under which each name seen once is as good as new after 50 ms.
func passing() policy {
	return policy{perSecond: 20, names: 100_000, rest: 50 * time.Millisecond}
}

type byName struct {
	name string
	make func(p policy) (keyed, error)
}

// never is for caches that are to keep what they have.
func (p policy) never() time.Duration {
	if p.rest > 0 {
		return p.rest
	}
	return 24 * time.Hour
}

func (p policy) limiter() *rate.Limiter { return rate.NewLimiter(rate.Limit(p.perSecond), p.perSecond) }

func byNames() []byName {
	return append([]byName{{"sluice", func(p policy) (keyed, error) {
		tree := rig.ByName(p.names)
		if p.rest > 0 {
			client := htb.Spec{Name: htb.Template, Rate: algo.PerSecond(int64(p.perSecond)), Max: math.MaxInt32}
			var err error
			if tree, err = htb.New(rig.Class("", algo.PerSecond(rig.Fast), algo.Rate{}, rig.Class("free", algo.PerSecond(rig.Fast), algo.Rate{}, client))); err != nil {
				return keyed{}, err
			}
		}
		return keyed{func(name string) bool {
			d, err := tree.Allow(sluice.Now(), 1, "free", name)
			return err == nil && d.Allowed
		}, func() int { return rig.Row(tree, sluice.Now(), "free").Live }}, nil
	}}}, keyedPeers()...)
}

func keyedPeers() []byName {
	ctx := context.Background()
	return []byName{
		{"x/time in 256 shards", sharded},
		{"x/time in sync.Map", func(p policy) (keyed, error) {
			var m sync.Map
			return keyed{decide: func(name string) bool {
				l, ok := m.Load(name)
				if !ok {
					l, _ = m.LoadOrStore(name, p.limiter())
				}
				return l.(*rate.Limiter).Allow()
			}}, nil
		}},
		{"x/time in go-cache", func(p policy) (keyed, error) {
			c := cache.New(p.never(), p.never())
			return keyed{func(name string) bool {
				l, ok := c.Get(name)
				if !ok {
					l = p.limiter()
					if c.Add(name, l, cache.DefaultExpiration) != nil {
						l, _ = c.Get(name)
					}
				}
				return l.(*rate.Limiter).Allow()
			}, c.ItemCount}, nil
		}},
		{"x/time in an LRU", func(p policy) (keyed, error) {
			c, err := lru.New[string, *rate.Limiter](p.names)
			return keyed{func(name string) bool {
				l, ok := c.Get(name)
				if !ok {
					l = p.limiter()
					if before, found, _ := c.PeekOrAdd(name, l); found {
						l = before
					}
				}
				return l.Allow()
			}, c.Len}, err
		}},
		{"throttled", func(p policy) (keyed, error) {
			most := 0
			if p.rest > 0 {
				most = p.names // an LRU
			}
			store, err := memstore.NewCtx(most)
			if err != nil {
				return keyed{}, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(p.perSecond), MaxBurst: p.perSecond - 1})
			if err != nil {
				return keyed{}, err
			}
			l.SetMaxCASAttemptsLimit(math.MaxInt) // or some fail, where cores meet
			return keyed{decide: func(name string) bool {
				limited, _, err := l.RateLimitCtx(ctx, name, 1)
				return err == nil && !limited
			}}, nil
		}},
		{"go-limiter", func(p policy) (keyed, error) {
			s, err := memorystore.New(&memorystore.Config{Tokens: 1 << 50, Interval: 24 * time.Hour, SweepInterval: p.never(), SweepMinTTL: p.never()})
			return keyed{decide: func(name string) bool {
				_, _, _, ok, err := s.Take(ctx, name)
				return err == nil && ok
			}}, err
		}},
		{"ulule", func(p policy) (keyed, error) {
			s := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "l", CleanUpInterval: p.never()})
			l := limiter.New(s, limiter.Rate{Period: p.never(), Limit: 1 << 50})
			return keyed{decide: func(name string) bool {
				c, err := l.Get(ctx, name)
				return err == nil && !c.Reached
			}}, nil
		}},
	}
}

// sharded is a map of limiters in 256 parts.
func sharded(p policy) (keyed, error) { return keyed{decide: rig.Shards(p.limiter)}, nil }
