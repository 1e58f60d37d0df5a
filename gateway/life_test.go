package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
)

func shared(rate, burst int64) htb.Spec {
	return htb.Spec{Rate: algo.PerSecond(rate), Burst: burst, Sync: 50 * time.Millisecond}
}

// A gateway that starts knows what others have used, and one that ends leaves it behind.
func TestANewGatewayKnowsWhatWasUsed(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	root := htb.Spec{Rate: slow(t), Burst: 100, Sync: 50 * time.Millisecond}
	a := start(t, root, connect(t, s), nil)
	d, err := a.Allow(ctx, 100)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, a.Close(ctx))
	require.NoError(t, a.Close(ctx), "twice is no error")
	b := start(t, root, connect(t, s), nil)
	d, err = b.Allow(ctx, 99)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, 1, b.Stats().Gateways, "the one before has left")
}

// Settling corrects what is in Redis, too.
func TestHoldsAreSettledInRedis(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	a, b := start(t, clients(), connect(t, s), nil), start(t, clients(), connect(t, s), nil)
	h, d, err := a.Hold(ctx, 10, "alice")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	refused, err := b.Allow(ctx, 1, "alice")
	require.NoError(t, err)
	require.False(t, refused.Allowed)
	require.NoError(t, h.Settle(ctx, 4))
	require.ErrorIs(t, h.Settle(ctx, 0), htb.ErrSettled)
	for i := range 7 {
		d, err := b.Allow(ctx, 1, "alice")
		require.NoError(t, err)
		require.Equal(t, i < 6, d.Allowed)
	}
	none, d, err := a.Hold(ctx, 1, "alice")
	require.NoError(t, err)
	require.Nil(t, none)
	require.False(t, d.Allowed)
}

// What cannot be kept in Redis is said at the start, with the class.
func TestLimitsThatRedisCannotKeep(t *testing.T) {
	s := redistest.Run(t)
	odd, err := algo.NewRate(4_600_000_000_000_003, 366*24*time.Hour)
	require.NoError(t, err)
	root := htb.Spec{Rate: algo.PerSecond(1_000_000_000), Oversubscribed: true, Children: []htb.Spec{{Name: "odd", Rate: odd, Remote: true}}}
	_, err = New(context.Background(), root, connect(t, s), Options{})
	require.ErrorContains(t, err, `class "odd"`)
}

// A replacement takes its settings along.
func TestReplace(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	plain := htb.Spec{Rate: algo.PerSecond(100)}
	a, b := start(t, plain, connect(t, s), nil), start(t, shared(100, 100), connect(t, s), nil)
	require.NoError(t, a.Replace(shared(100, 100)))
	require.ErrorContains(t, a.Replace(htb.Spec{}), "rate")
	d, err := b.Allow(ctx, 100)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Eventually(t, func() bool {
		_, err := a.Allow(ctx, 1)
		require.NoError(t, err)
		return a.Stats().Gateways == 2
	}, 5*time.Second, 20*time.Millisecond)
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A gateway starts without Redis, by the outage policy, and finds it when it is there.
func TestStartWithoutRedis(t *testing.T) {
	s := redistest.Run(t)
	client := connect(t, s)
	require.NoError(t, s.Kill())
	var log lines
	g := start(t, shared(100, 100), client, func(o *Options) {
		o.OnOutage = htb.Closed
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	d, err := g.Allow(context.Background(), 1)
	require.NoError(t, err)
	require.Equal(t, htb.NoStore, d.Reason)
	require.NoError(t, s.Start())
	require.Eventually(t, func() bool {
		d, err := g.Allow(context.Background(), 1)
		require.NoError(t, err)
		return d.Allowed
	}, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), "does not answer"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "again"), log.String())
}

// Gateways leave no goroutine, and calls that race with Close are answered.
func TestCloseLeavesNothing(t *testing.T) {
	s := redistest.Run(t)
	client := connect(t, s)
	before := runtime.NumGoroutine()
	for range 5 {
		g := start(t, clients(), client, nil)
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				for range 20 {
					_, err := g.Allow(context.Background(), 1, fmt.Sprint(i))
					assert.NoError(t, err)
				}
			})
		}
		time.Sleep(2 * time.Millisecond) // in the middle of it
		assert.NoError(t, g.Close(context.Background()))
		callers.Wait()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before }, 5*time.Second, 10*time.Millisecond)
}

// What a key takes in Redis.
func TestSizing(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	client := connect(t, s)
	root := htb.Spec{Rate: algo.PerSecond(1000), Sync: 50 * time.Millisecond, Children: []htb.Spec{
		{Name: "*", Rate: algo.PerSecond(1), Burst: 5, Ceil: algo.PerSecond(10), CBurst: 5, Remote: true},
	}}
	gateways := []*Gateway{start(t, root, client, nil)}
	_, err := gateways[0].Allow(ctx, 1, "a client of 20 bytes")
	require.NoError(t, err)
	leaf := client.MemoryUsage(ctx, "htb:{default:a client of 20 bytes}").Val()
	size := func(n int) int64 {
		for len(gateways) < n {
			gateways = append(gateways, start(t, root, client, nil))
		}
		key := "htb:{default:global}:sync"
		require.Eventually(t, func() bool {
			for i, g := range gateways {
				_, err := g.Allow(ctx, 1, fmt.Sprint("client", i))
				require.NoError(t, err)
			}
			return client.HLen(ctx, key).Val() == int64(n+1)
		}, 10*time.Second, 20*time.Millisecond)
		return client.MemoryUsage(ctx, key).Val()
	}
	one, eight := size(1), size(8)
	t.Logf("a leaf with rate and ceil takes %d bytes, a class with sync %d with one gateway and %d with eight", leaf, one, eight)
	assert.Less(t, leaf, int64(300))
	assert.Less(t, one, int64(1000))
	assert.Less(t, eight, int64(3000))
}
