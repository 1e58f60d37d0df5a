package main

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// counter is a hook of clients that counts calls of scripts, and remembers their keys.
type counter struct {
	decisions, exchanges, heartbeats, trips atomic.Int64

	keys sync.Map // of string
	many atomic.Int64
}

// mostKeys is how many keys a counter remembers: those of more clients are left to expire.
const mostKeys = 100_000

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.saw(cmd)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.saw(cmds...)
		return next(ctx, cmds)
	}
}

// saw counts the commands of a round trip.
func (c *counter) saw(cmds ...redis.Cmder) {
	scripts := false
	for _, cmd := range cmds {
		if name := cmd.Name(); name != "evalsha" && name != "eval" {
			continue
		}
		scripts = true
		key, _ := cmd.Args()[3].(string) // after the name, the script and the number of keys
		switch {
		case strings.HasSuffix(key, ":sync"):
			c.exchanges.Add(1)
		case strings.HasSuffix(key, ":gateways"):
			c.heartbeats.Add(1)
		default:
			c.decisions.Add(1)
		}
		if c.many.Load() < mostKeys {
			if _, known := c.keys.LoadOrStore(key, true); !known {
				c.many.Add(1)
			}
		}
	}
	if scripts {
		c.trips.Add(1)
	}
}

// forget deletes the keys, in any order, until ctx ends. Those left expire once their buckets are full.
func (c *counter) forget(ctx context.Context, clients []redis.UniversalClient) {
	if c.many.Load() == 0 {
		return
	}
	const batch = 1000
	pipe := clients[0].Pipeline()
	c.keys.Range(func(key, _ any) bool {
		pipe.Unlink(ctx, key.(string))
		if pipe.Len() >= batch {
			_, err := pipe.Exec(ctx)
			return err == nil
		}
		return true
	})
	_, _ = pipe.Exec(ctx) // Redis may be gone
}
