package redisgcra

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/redistest"
)

func TestNames(t *testing.T) {
	l, s := start(t, Options{Tree: "a:b"}, false)
	ctx := context.Background()
	limit := Limit{mustRate(t, 1, time.Hour), 1}
	keys := map[string]string{
		"plain":                  "htb:{a%3Ab:plain}",
		"{}":                     "htb:{a%3Ab:%7B%7D}",
		"%7B%7D":                 "htb:{a%3Ab:%257B%257D}",
		"a:b":                    "htb:{a%3Ab:a%3Ab}",
		"a}b":                    "htb:{a%3Ab:a%7Db}",
		"\x00\r\n\x7f":           "htb:{a%3Ab:%00%0D%0A%7F}",
		"free/käse":              "htb:{a%3Ab:free/käse}",
		"\xff":                   "htb:{a%3Ab:\xff}",
		strings.Repeat("x", 256): "htb:{a%3Ab:" + strings.Repeat("x", 256) + "}",
	}
	for name := range keys { // each has a bucket of its own
		v, err := l.Allow(ctx, name, limit, 1)
		require.NoError(t, err)
		require.True(t, v.Allowed, "%q", name)
	}
	client := s.Connect(t, nil)
	for name, want := range keys {
		got, err := Key("a:b", name)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.EqualValues(t, 1, client.Exists(ctx, want).Val(), "%q", want)
	}
	require.EqualValues(t, len(keys), client.DBSize(ctx).Val())
	for _, bad := range []string{"", strings.Repeat("x", 257)} {
		_, err := l.Allow(ctx, bad, limit, 1)
		require.ErrorIs(t, err, ErrName)
		_, err = Key(bad, "x")
		require.ErrorIs(t, err, ErrName)
	}
	_, err := l.Leaf("", limit, limit)
	require.ErrorIs(t, err, ErrName)
	_, err = Key("t", strings.Repeat("x", MaxPath+1))
	require.ErrorIs(t, err, ErrName)
}

func TestNewRefuses(t *testing.T) {
	s := redistest.Run(t)
	good := s.Connect(t, nil)
	for _, opts := range []Options{
		{Tree: strings.Repeat("x", 257)}, {Timeout: -1}, {MaxQueue: -1}, {MaxBatch: -1}, {MaxBatch: 5000}, {Flights: -1}, {Flights: 65},
	} {
		_, err := New(good, opts)
		require.Error(t, err, "%+v", opts)
	}
	_, err := New(nil, Options{})
	require.ErrorContains(t, err, "no client")
	_, err = New(s.Connect(t, func(o *redis.Options) { o.ReadTimeout = -1 }), Options{})
	require.ErrorContains(t, err, "ReadTimeout")
	_, err = New(wrapped{good}, Options{})
	require.ErrorContains(t, err, "wrapped")
}

type wrapped struct{ redis.UniversalClient }

func TestLimitsThatCannotBe(t *testing.T) {
	l, _ := start(t, Options{}, false)
	second := Limit{algo.PerSecond(1), 1}
	for want, limits := range map[string][2]Limit{
		"must be positive":    {{Burst: 1}},
		"burst 0":             {{Rate: algo.PerSecond(1)}},
		"100 years":           {{Rate: mustRate(t, 1, 365*24*time.Hour), Burst: 101}},
		"kept exactly":        {{Rate: mustRate(t, 9_007_199_254_740_881, 365*24*time.Hour), Burst: 1}},
		"ceil: redisgcra":     {second, {Burst: 1}},
		"below the rate":      {{algo.PerSecond(2), 1}, second},
		"with cburst 1 is be": {{algo.PerSecond(1), 2}, second},
	} {
		_, err := l.Leaf("a", limits[0], limits[1])
		require.ErrorContains(t, err, want)
	}
	_, err := l.Allow(context.Background(), "a", Limit{}, 1)
	require.ErrorContains(t, err, "must be positive")
	for range maxShapes + 10 { // the cache is bounded, and forgetting it harmless
		_, err := l.shapes.get(Limit{algo.PerSecond(1), int64(len(l.shapes.of) + 1)}, Limit{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(l.shapes.of), maxShapes)
	}
}

// Two limiters, as in two processes, share one key.
func TestTwoLimitersShareAKey(t *testing.T) {
	first, s := start(t, Options{}, false)
	second, err := New(s.Connect(t, nil), Options{Timeout: 10 * time.Second})
	require.NoError(t, err)
	defer second.Close()
	limit := Limit{mustRate(t, 1, time.Hour), 500}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 30 {
				v, err := []*Limiter{first, second}[i%2].Allow(context.Background(), "k", limit, 1)
				if err != nil {
					t.Error(err)
				} else if v.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 500, passed.Load())
}

// By the server's clock, a minute or less: what passes is right to 0.1 %. The slow
// rates are in the state that is left, exactly.
func TestRatesOnTheServersClock(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	client := s.Connect(t, nil)
	for _, rate := range []algo.Rate{
		mustRate(t, 1, 365*24*time.Hour), mustRate(t, 1, 24*time.Hour), mustRate(t, 7, time.Hour), algo.PerSecond(3),
		algo.PerSecond(1000), algo.PerSecond(100_000), algo.PerSecond(999_983), algo.PerSecond(1_000_000),
	} {
		// Taken in bites of a millisecond or a unit, for half a second: burst + rate*time.
		// The time is between two pairs of readings, before and after the first and the last.
		cost := max(1, rate.Over(time.Millisecond))
		limit := Limit{rate, min(1000*cost, max(90, rate.Over(100*time.Second)))} // a pause of a second loses nothing
		key := fmt.Sprint(rate)
		now := func() time.Time {
			v, err := client.Time(ctx).Result()
			require.NoError(t, err)
			return v
		}
		allow := func(cost int64) algo.Verdict {
			v, err := l.Allow(ctx, key, limit, cost)
			require.NoError(t, err)
			return v
		}
		before := now()
		require.True(t, allow(limit.Burst).Allowed) // empty, so that a pause now loses nothing
		after, passed := now(), limit.Burst
		for last := false; !last; {
			last = now().Sub(after) > 500*time.Millisecond
			for allow(cost).Allowed {
				passed += cost
			}
		}
		shortest := now().Sub(after)
		passed += allow(0).Remaining
		longest := now().Sub(before)
		least, most := limit.Burst+rate.Over(shortest), limit.Burst+rate.Over(longest)
		t.Logf("%v: %d passed or remain, %d to %d due", rate, passed, least, most)
		require.LessOrEqual(t, passed, most)
		require.GreaterOrEqual(t, passed, least-1-least/1000)
	}
}

// A key expires when its buckets are full, which is what no key means, and not before.
func TestExpiry(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	client := s.Connect(t, nil)
	for _, limit := range []Limit{{algo.PerSecond(1000), 100}, {mustRate(t, 1, time.Hour), 3}, {mustRate(t, 1, 365*24*time.Hour), 100}} {
		key := fmt.Sprint(limit.Rate)
		name, err := Key("default", key)
		require.NoError(t, err)
		v, err := l.Allow(ctx, key, limit, 0)
		require.NoError(t, err)
		require.True(t, v.Allowed)
		require.Zero(t, client.Exists(ctx, name).Val(), "asking leaves nothing")
		v, err = l.Allow(ctx, key, limit, limit.Burst)
		require.NoError(t, err)
		require.Equal(t, limit.Rate.Takes(limit.Burst), v.Reset)
		left := client.PTTL(ctx, name).Val()
		require.InDelta(t, float64(v.Reset+time.Second), float64(left), float64(900*time.Millisecond))
		refused, err := l.Allow(ctx, key, limit, limit.Burst)
		require.NoError(t, err)
		require.False(t, refused.Allowed)
		require.LessOrEqual(t, client.PTTL(ctx, name).Val(), left, "a refusal writes nothing")
	}
}

// A server's clock that fell back: the bucket counts as empty, not as in debt. And a
// limit that changed: never worse than empty, nor better than full.
func TestClockFallsBackAndLimitChanges(t *testing.T) {
	l, _ := start(t, Options{}, true)
	limit := Limit{algo.PerSecond(3), 6}
	k := clocked{l, "k", limit}
	const hour = algo.Time(time.Hour)
	allow := func(now algo.Time, cost int64) algo.Verdict {
		v, err := k.Allow(now, cost)
		require.NoError(t, err)
		return v
	}
	require.True(t, allow(hour, 4).Allowed)
	require.Equal(t, algo.Verdict{Allowed: true, Reset: 2 * time.Second}, allow(0, 0), "an hour back: empty")
	require.Equal(t, algo.Verdict{RetryAfter: 333_334 * time.Microsecond, Reset: 2 * time.Second}, allow(0, 1))
	require.EqualValues(t, 2, allow(hour, 0).Remaining, "asking changed nothing")
	require.True(t, allow(hour, 2).Allowed)

	k.limit = Limit{algo.PerSecond(7), 7} // 2 s were missing, 1 s is the most
	require.Equal(t, algo.Verdict{Allowed: true, Reset: time.Second}, allow(hour, 0))
	k.limit = Limit{algo.PerSecond(1), 5} // 3 of 5 s are there
	require.EqualValues(t, 3, allow(hour, 0).Remaining)
	k.limit = limit
	require.False(t, allow(hour, 1).Allowed)
}

// A key with somebody else's value is an error of that key alone.
func TestForeignValue(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	client := s.Connect(t, nil)
	require.NoError(t, client.Set(ctx, "htb:{default:text}", "hello", 0).Err())
	require.NoError(t, client.LPush(ctx, "htb:{default:list}", "hello").Err())
	var wg sync.WaitGroup
	for range 8 {
		for name, bad := range map[string]string{"text": "not the state", "list": "WRONGTYPE", "good": ""} {
			wg.Go(func() {
				_, err := l.Allow(ctx, name, Limit{algo.PerSecond(1), 1}, 1)
				if bad == "" && err != nil || bad != "" && (err == nil || !strings.Contains(err.Error(), bad)) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	wg.Wait()
}
