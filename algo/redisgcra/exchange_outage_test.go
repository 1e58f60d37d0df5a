package redisgcra

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// Many classes in one pipeline, some of whose keys are somebody else's, by a server that
// forgot the script; and then again.
func TestExchangeOfManyClasses(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	client := s.Connect(t, nil)
	require.NoError(t, client.Set(ctx, "htb:{default:7}:sync", "hello", 0).Err())
	require.NoError(t, client.HSet(ctx, "htb:{default:8}:sync", "state", "hello").Err())
	const classes = 500
	reports, answers := make([]Report, classes), make([]Shared, classes)
	for i := range reports {
		reports[i] = Report{Path: fmt.Sprint(i), Rate: Limit{mustRate(t, 1, time.Hour), 10}, Used: [2]int64{int64(i), 0}}
	}
	for round := range 3 {
		require.NoError(t, client.ScriptFlush(ctx).Err())
		err := l.Exchange(ctx, "g", time.Minute, reports, answers)
		require.ErrorContains(t, err, `2 of 500 reports have no answer: class "7": WRONGTYPE`)
		for i, a := range answers {
			switch i {
			case 7, 8:
				require.Error(t, a.Err)
			default:
				require.NoError(t, a.Err)
				require.Equal(t, int64(i), a.Total[0], "round %d", round)
				require.Equal(t, 1, a.Gateways)
			}
		}
		require.ErrorContains(t, answers[8].Err, "not the state of a class")
	}
	// A key lives until its debt is paid, and at least until its gateways are silent.
	require.InDelta(t, float64(20*time.Hour), float64(client.PTTL(ctx, "htb:{default:20}:sync").Val()), float64(time.Minute))
	require.InDelta(t, float64(time.Minute), float64(client.PTTL(ctx, "htb:{default:0}:sync").Val()), float64(10*time.Second))
}

// Gateways that exchange all the time, over connections that break, with a server that
// hangs and forgets its scripts: in the end each unit is booked once.
func TestExchangeBooksOnce(t *testing.T) {
	_, s := start(t, Options{}, false)
	ctx := context.Background()
	admin := s.Connect(t, nil)
	const gateways, rounds = 4, 60
	class := Report{Path: "c", Rate: Limit{mustRate(t, 1, time.Hour), 10}}
	ls := make([]*Limiter, gateways)
	reports := make([][]Report, gateways)
	failed := make([]int, gateways)
	var wg sync.WaitGroup
	for g := range gateways {
		client := s.Connect(t, func(o *redis.Options) {
			o.ContextTimeoutEnabled, o.MaxRetries = true, g-1 // -1: none
		})
		l, err := New(client, Options{})
		require.NoError(t, err)
		ls[g], reports[g] = l, []Report{class}
		wg.Go(func() {
			for range rounds {
				reports[g][0].Used[0] += 7
				var answer [1]Shared
				soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				if err := l.Exchange(soon, fmt.Sprint(g), time.Minute, reports[g], answer[:]); err != nil {
					failed[g]++
				} else {
					reports[g][0].Base = reports[g][0].Used
				}
				cancel()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for range 3 {
		time.Sleep(60 * time.Millisecond)
		require.NoError(t, admin.ScriptFlush(ctx).Err())
		require.NoError(t, s.Pause())
		time.Sleep(60 * time.Millisecond)
		require.NoError(t, s.Resume())
		require.NoError(t, admin.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err())
	}
	wg.Wait()
	var answer [1]Shared
	for g, l := range ls {
		require.NotZero(t, failed[g], "the server hung")
		require.Less(t, failed[g], rounds/2)
		require.NoError(t, l.Exchange(ctx, fmt.Sprint(g), time.Minute, reports[g], answer[:]))
	}
	require.Equal(t, int64(gateways*rounds*7), answer[0].Total[0])
	require.Equal(t, gateways, answer[0].Gateways)
}

// Redis that lost everything: what was owed is forgotten, and what was booked before is
// not booked again.
func TestExchangeAfterFlushAll(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	var answer [1]Shared
	reports := []Report{{Path: "c", Rate: Limit{mustRate(t, 1, time.Hour), 10}, Used: [2]int64{10, 0}}}
	tell := func() {
		require.NoError(t, l.Exchange(ctx, "g", time.Minute, reports, answer[:]))
		reports[0].Base = reports[0].Used
	}
	tell()
	require.InDelta(t, float64(10*time.Hour), float64(answer[0].Owed[0]), float64(time.Minute))
	require.NoError(t, s.Connect(t, nil).FlushAll(ctx).Err())
	tell()
	require.Equal(t, Shared{Gateways: 1}, answer[0], "one extra burst")
	reports[0].Used[0] += 10
	tell()
	require.Equal(t, int64(10), answer[0].Total[0])
	require.NoError(t, s.Connect(t, nil).FlushAll(ctx).Err())
	reports[0].Used[0]++ // since the last answer
	tell()
	require.Equal(t, int64(1), answer[0].Total[0])
}

// A server that hangs: the call ends with ctx, and when the server goes on what was sent
// meanwhile is booked once.
func TestExchangeWithAHangingServer(t *testing.T) {
	l, s := start(t, Options{}, false)
	reports := []Report{{Path: "c", Rate: Limit{algo.PerSecond(1), 10}}}
	var answer [1]Shared
	tell := func(patience time.Duration) error {
		reports[0].Used[0] += 100
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := l.Exchange(ctx, "g", time.Minute, reports, answer[:])
		if err == nil {
			reports[0].Base = reports[0].Used
		}
		return err
	}
	require.NoError(t, tell(10*time.Second))
	require.NoError(t, s.Pause())
	for range 5 {
		start := time.Now()
		require.ErrorIs(t, tell(20*time.Millisecond), context.DeadlineExceeded)
		require.Less(t, time.Since(start), time.Second)
	}
	require.NoError(t, s.Resume())
	require.NoError(t, tell(10*time.Second))
	for range 10 { // what hung comes in any order
		require.Equal(t, int64(700), answer[0].Total[0])
		time.Sleep(5 * time.Millisecond)
		ctx := context.Background()
		require.NoError(t, l.Exchange(ctx, "g", time.Minute, reports, answer[:]))
	}
}

func BenchmarkExchange(b *testing.B) {
	l, _ := start(b, Options{}, false)
	reports, answers := make([]Report, 100), make([]Shared, 100)
	for i := range reports {
		reports[i] = Report{Path: fmt.Sprint(i), Rate: Limit{algo.PerSecond(1000), 100}, Ceil: Limit{algo.PerSecond(2000), 200}}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range reports {
			reports[i].Used[0]++
		}
		if err := l.Exchange(context.Background(), "g", time.Minute, reports, answers); err != nil {
			b.Fatal(err)
		}
	}
}
