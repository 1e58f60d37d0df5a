package rig

import (
	"hash/maphash"
	"sync"

	"golang.org/x/time/rate"
)

// Shards returns what decides by a map of limiters in 256 parts, each under a mutex: what
// a service writes that limits by name.
func Shards(limiter func() *rate.Limiter) func(name string) bool {
	type shard struct {
		sync.Mutex
		limits map[string]*rate.Limiter
		_      [64]byte // each in cache lines of its own
	}
	shards := make([]shard, 256)
	for i := range shards {
		shards[i].limits = map[string]*rate.Limiter{}
	}
	seed := maphash.MakeSeed()
	return func(name string) bool {
		s := &shards[maphash.String(seed, name)%uint64(len(shards))]
		s.Lock()
		l, ok := s.limits[name]
		if !ok {
			l = limiter()
			s.limits[name] = l
		}
		s.Unlock()
		return l.Allow()
	}
}
