package redisgcra

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

func newCall(r request) *call {
	return &call{request: r, stage: flying, answered: make(chan struct{}, 1)}
}

// fly sends calls in order, a batch at a time, and returns the decisions.
func fly(t testing.TB, l *Limiter, calls []*call) []Decision {
	f := flight{queue: &l.nodes.first, at: map[site]int{}}
	decisions := make([]Decision, len(calls))
	const batch = 256
	for i := 0; i < len(calls); i += batch {
		some := calls[i:min(i+batch, len(calls))]
		if again := f.send(context.Background(), some, false); len(again) > 0 {
			require.Empty(t, f.send(context.Background(), again, true))
		}
		for j, c := range some {
			require.NoError(t, c.err)
			decisions[i+j] = c.decision(c.answer)
		}
	}
	return decisions
}

// In 10^6 random calls at the same times, Redis decides exactly as memory does: rates
// from one per year to 1e9 per second, costs from 0 to the burst, several requests of
// a key at one instant and far apart.
func TestDecisionsAreThoseInMemory(t *testing.T) {
	total := 1_000_000
	if testing.Short() || raceEnabled {
		total = 100_000
	}
	l, _ := start(t, Options{}, true)
	draw := rand.New(rand.NewPCG(17, 4))
	type key struct {
		clocked
		memory *algo.GCRA
		now    algo.Time
	}
	keys := make([]*key, 200)
	for i := range keys {
		limit := randomLimit(t, draw)
		g, err := algo.NewGCRA(limit.Rate, limit.Burst)
		require.NoError(t, err)
		keys[i] = &key{clocked{l, fmt.Sprint(i), limit}, g, 0}
	}
	const batch = 20_000
	allowed, refused := 0, 0
	for done := 0; done < total; done += batch {
		var calls []*call
		var wants []algo.Verdict
		for range batch {
			k := keys[draw.IntN(len(keys))]
			if draw.IntN(3) > 0 { // else at the same instant again
				most := min(max(int64(k.limit.Rate.Takes(1+k.limit.Burst/4)), 2000), int64(24*time.Hour))
				k.now = k.now.Add(time.Duration(draw.Int64N(most)) / 1000 * 1000)
			}
			cost := draw.Int64N(1 + min(k.limit.Burst, 1+draw.Int64N(k.limit.Burst)))
			v, err := k.memory.Allow(k.now, cost)
			require.NoError(t, err)
			v.RetryAfter, v.Reset = micros(v.RetryAfter), micros(v.Reset)
			wants = append(wants, v)
			r, err := k.request(k.now, cost)
			require.NoError(t, err)
			calls = append(calls, newCall(r))
		}
		for i, d := range fly(t, l, calls) {
			if wants[i] != d.Verdict {
				require.Equal(t, wants[i], d.Verdict, "call %d, %+v", done+i, calls[i].request)
			}
			if d.Allowed {
				allowed++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d allowed, %d refused", allowed, refused)
	require.Greater(t, allowed, total/10)
	require.Greater(t, refused, total/10)
}

func randomLimit(t testing.TB, draw *rand.Rand) Limit {
	burst := 1 + draw.Int64N(50)
	switch draw.IntN(6) {
	case 0:
		return Limit{mustRate(t, 1+draw.Int64N(20), 365*24*time.Hour), burst}
	case 1:
		return Limit{mustRate(t, 1+draw.Int64N(100), 24*time.Hour), burst}
	case 2:
		return Limit{algo.PerSecond(1 + draw.Int64N(1_000_000)), 1 + draw.Int64N(5000)}
	case 3:
		return Limit{algo.PerSecond(1_000_000_000 - draw.Int64N(100)), 1 + draw.Int64N(50_000)}
	case 4:
		return Limit{mustRate(t, 1+draw.Int64N(1_000_000), time.Duration(1+draw.Int64N(1e12))), burst}
	}
	return Limit{algo.PerSecond(1 + draw.Int64N(20)), burst}
}
