package algo_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

func keyed(t testing.TB, l limiter, most int) *algo.Keyed[string] {
	k, err := algo.NewKeyed[string](most, func() algo.Limiter { return l.make(t, algo.PerSecond(10), 5) })
	require.NoError(t, err)
	return k
}

// With room for all keys every key is decided on as by a limiter that is never dropped.
func TestKeyedDropsChangeNoDecision(t *testing.T) {
	for _, l := range limiters {
		draw := rand.New(rand.NewPCG(1, 2))
		k, own := keyed(t, l, 1000), map[string]algo.Limiter{}
		now, least, most := algo.Time(0), 1000, 0
		for i := range 20_000 {
			now += algo.Time(draw.Int64N(int64(20 * time.Millisecond)))
			key := fmt.Sprint("key ", draw.IntN(200))
			if own[key] == nil {
				own[key] = l.make(t, algo.PerSecond(10), 5)
			}
			cost := draw.Int64N(4)
			got, err := k.Allow(now, key, cost)
			require.NoError(t, err)
			if want := ask(t, own[key], now, cost); got != want {
				require.Equal(t, want, got, "%s, decision %d", l.name, i)
			}
			if i > 1000 {
				least, most = min(least, k.Len()), max(most, k.Len())
			}
		}
		t.Logf("%s: between %d and %d of 200 keys kept", l.name, least, most)
		require.Less(t, most, 150, "keys at rest are dropped")
	}
}

// A flood of names takes neither memory nor a place, and all of it gets what one key may.
func TestKeyedFlood(t *testing.T) {
	k := keyed(t, tokenBucket, 100)
	now := algo.Time(0)
	busy := func() bool {
		v, err := k.Allow(now, "busy", 1)
		require.NoError(t, err)
		return v.Allowed
	}
	for busy() {
	}
	passed := 0
	for i := range 10_000 {
		v, err := k.Allow(now, fmt.Sprint("made up ", i), 5)
		require.NoError(t, err)
		if v.Allowed {
			passed++
		}
		require.LessOrEqual(t, k.Len(), 100)
	}
	require.Equal(t, 99+1, passed, "the other places, and the shared one")
	require.False(t, busy(), "the flood did not make it as new")
	now += algo.Time(time.Second)
	require.True(t, busy())
	for range 100 {
		busy()
	}
	require.Equal(t, 1, k.Len(), "all others are at rest")
}

func TestKeyedAllocatesNothingForOldKeys(t *testing.T) {
	k := keyed(t, gcra, 10)
	now, keys := algo.Time(0), []string{"a", "b", "c", "d"}
	step := func() {
		for _, key := range keys {
			now += algo.Time(70 * time.Millisecond) // they come to rest, and come back
			_, _ = k.Allow(now, key, 1)
		}
	}
	for range 10 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}

func BenchmarkKeyed(b *testing.B) {
	k := keyed(b, gcra, 100_000)
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprint("client ", i)
	}
	now, i := algo.Time(0), 0
	for _, name := range names {
		_, _ = k.Allow(now, name, 5)
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 100
		_, _ = k.Allow(now, names[i%len(names)], 1)
		i++
	}
}

// What a key takes: its limiter, a place and an entry of the index.
func TestKeyedMemory(t *testing.T) {
	const keys = 100_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("client ", i)
	}
	for _, l := range []limiter{tokenBucket, fixedWindow, slidingCounter, dualBucket} {
		k := keyed(t, l, keys)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for _, name := range names {
			_, _ = k.Allow(0, name, 1)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		per := float64(after.HeapAlloc-before.HeapAlloc) / keys
		t.Logf("%s: %.0f bytes a key of %d, names aside", l.name, per, k.Len())
		require.Less(t, per, 500.0)
		runtime.KeepAlive(k)
	}
}

// At the end of time a key that is not at rest is not forgotten.
func TestKeyedAtTheEndOfTime(t *testing.T) {
	for _, l := range limiters {
		for _, now := range []algo.Time{math.MaxInt64 - 1, math.MaxInt64} {
			k := keyed(t, l, 10)
			passed := 0
			for range 100 {
				for _, key := range []string{"a", "b", "c"} {
					v, err := k.Allow(now, key, 1)
					require.NoError(t, err)
					if v.Allowed {
						passed++
					}
				}
			}
			require.LessOrEqual(t, passed, 3*5, l.name)
			_, err := k.Allow(math.MaxInt64, "d", 0) // which leaves it at rest
			require.NoError(t, err)
			for range 8 {
				_, err = k.Allow(math.MaxInt64, "a", 0)
				require.NoError(t, err)
			}
			require.Equal(t, 3, k.Len(), "%s: those not at rest", l.name)
		}
	}
}

// A key that moves from the shared limiter to one of its own gets at most two bursts.
func TestKeyedMovesOnce(t *testing.T) {
	k := keyed(t, gcra, 1)
	now, passed := algo.Time(0), 0
	ask := func(key string) bool {
		v, err := k.Allow(now, key, 1)
		require.NoError(t, err)
		return v.Allowed
	}
	require.True(t, ask("first"))
	for now += algo.Time(99 * time.Millisecond); ask("second"); {
		passed++
	}
	for now += algo.Time(time.Millisecond); ask("second"); {
		passed++
	}
	require.Equal(t, 2*5, passed)
}
