package main

import (
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/patrickmn/go-cache"
	"golang.org/x/time/rate"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

const (
	perSecond = 1_000_000 // of a name that lives: all pass
	recover   = 50 * time.Millisecond
	kept      = 100_000 // that a cache with eviction holds
)

// living keep every name they have seen.
var living = []contender{
	{"x/time/rate in 256 shards", func(int) keeper { return &shards{rig.Shards(limiter)} }},
	{"x/time/rate in a map", func(int) keeper { return &locked{all: map[string]*rate.Limiter{}} }},
	{"sluice", func(live int) keeper {
		return newTree(htb.Spec{Rate: algo.PerSecond(perSecond), Burst: perSecond, Max: live, Idle: time.Hour})
	}},
}

// evicting forget names: who has not asked for as long as it takes a bucket to be full
// again, or as soon as there are as many as there may be.
var evicting = []contender{
	{"go-cache of x/time/rate", func(int) keeper { return &cached{cache.New(recover, recover)} }},
	{"golang-lru of x/time/rate", func(int) keeper {
		c, err := lru.New[string, *rate.Limiter](kept)
		if err != nil {
			panic(err)
		}
		return &latest{c: c}
	}},
	{"sluice", func(int) keeper {
		return newTree(htb.Spec{Rate: algo.PerSecond(int64(time.Second / recover)), Max: 1_000_000})
	}},
}

func limiter() *rate.Limiter { return rate.NewLimiter(perSecond, perSecond) }

type tree struct{ *htb.Tree }

func newTree(template htb.Spec) tree {
	template.Name = htb.Template
	t, err := htb.New(htb.Spec{Rate: algo.PerSecond(1_000_000_000), Children: []htb.Spec{template}})
	if err != nil {
		panic(err)
	}
	return tree{t}
}

func (t tree) allow(name string) bool {
	d, err := t.Allow(sluice.Now(), 1, name)
	if err != nil {
		panic(err)
	}
	return d.Allowed
}

func (t tree) live() int { return t.Stats(sluice.Now())[0].Live }

func (tree) close() {}

// locked is a map of limiters.
type locked struct {
	mu  sync.Mutex
	all map[string]*rate.Limiter
}

func (l *locked) get(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.all[name]
	if !ok {
		r = limiter()
		l.all[strings.Clone(name)] = r
	}
	return r
}

func (l *locked) allow(name string) bool { return l.get(name).Allow() }

func (*locked) close() {}

type shards struct{ decide func(name string) bool }

func (s *shards) allow(name string) bool { return s.decide(name) }

func (*shards) close() {}

type cached struct{ *cache.Cache }

func (c *cached) allow(name string) bool {
	if v, ok := c.Get(name); ok {
		return v.(*rate.Limiter).Allow()
	}
	l := limiter()
	c.Set(name, l, cache.DefaultExpiration)
	return l.Allow()
}

func (c *cached) live() int { return c.ItemCount() }

func (c *cached) close() { c.Flush() }

type latest struct {
	c *lru.Cache[string, *rate.Limiter]
}

func (l *latest) allow(name string) bool {
	v, ok := l.c.Get(name)
	if !ok {
		v = limiter()
		l.c.Add(name, v)
	}
	return v.Allow()
}

func (l *latest) live() int { return l.c.Len() }

func (l *latest) close() { l.c.Purge() }
