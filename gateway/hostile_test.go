package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
)

// Made-up names under a template with sync do not shut down the other classes: reports go
// in parts, and names that nobody asks for any more are forgotten.
func TestAFloodOfNames(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	root := htb.Spec{Rate: algo.PerSecond(1_000_000), Children: []htb.Spec{
		{Name: "acme", Rate: algo.PerSecond(1000), Sync: 100 * time.Millisecond},
		{Name: "*", Rate: algo.PerSecond(10), Sync: 100 * time.Millisecond},
	}}
	g := start(t, root, connect(t, s), func(o *Options) { o.OnOutage = htb.Closed })
	const names = 20_000
	for i := range names {
		_, err := g.Allow(ctx, 1, fmt.Sprint("client", i))
		require.NoError(t, err)
	}
	refused := 0
	require.Eventually(t, func() bool {
		d, err := g.Allow(ctx, 1, "acme")
		require.NoError(t, err)
		if d.Reason == htb.NoStore {
			refused++
		}
		return g.Stats().Reports > 2*names
	}, 60*time.Second, 10*time.Millisecond)
	assert.Zero(t, refused)
	assert.False(t, g.Stats().Out)
}

// A class whose key Redis cannot use is out by itself.
func TestAnOutageOfOneClass(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	client := connect(t, s)
	root := htb.Spec{Rate: algo.PerSecond(1000), Children: []htb.Spec{
		{Name: "a", Rate: algo.PerSecond(100), Sync: 50 * time.Millisecond}, {Name: "b", Rate: algo.PerSecond(100), Sync: 50 * time.Millisecond},
	}}
	require.NoError(t, client.Set(ctx, "htb:{default:a}:sync", "not a hash", 0).Err())
	g := start(t, root, client, func(o *Options) { o.OnOutage = htb.Closed })
	reason := func(name string) htb.Reason {
		d, err := g.Allow(ctx, 1, name)
		require.NoError(t, err)
		return d.Reason
	}
	require.Eventually(t, func() bool {
		require.Zero(t, reason("b"))
		return reason("a") == htb.NoStore
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, client.Del(ctx, "htb:{default:a}:sync").Err())
	require.Eventually(t, func() bool {
		require.Zero(t, reason("b"))
		return reason("a") == 0
	}, 10*time.Second, 10*time.Millisecond)
}

// Close returns when its context ends, whatever Redis does.
func TestCloseWhileRedisHangs(t *testing.T) {
	s := redistest.Run(t)
	g := start(t, shared(100, 100), connect(t, s), nil)
	_, err := g.Allow(context.Background(), 1)
	require.NoError(t, err)
	require.NoError(t, s.Pause())
	t.Cleanup(func() { require.NoError(t, s.Resume()) })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- g.Close(ctx) }()
	select {
	case err := <-closed:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
}

// Also what a class with sync cannot keep in Redis is said at the start.
func TestLimitsThatCannotBeExchanged(t *testing.T) {
	s := redistest.Run(t)
	day, err := algo.NewRate(1, 24*time.Hour)
	require.NoError(t, err)
	_, err = New(context.Background(), htb.Spec{Rate: day, Burst: 40_000, Sync: time.Second}, connect(t, s), Options{})
	require.ErrorContains(t, err, "100 years")
	_, err = New(context.Background(), htb.Spec{Rate: day, Sync: 1000 * time.Hour}, connect(t, s), Options{})
	require.ErrorContains(t, err, "sync")
}

// A thousand requests at once of clients in Redis, under a class with sync, are no more
// than that class has.
func TestConcurrentRequestsKeepTheClassAbove(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	root := htb.Spec{Rate: slow(t), Burst: 50, Sync: 50 * time.Millisecond, Children: []htb.Spec{
		{Name: "*", Rate: slow(t), Burst: 40, Remote: true},
	}}
	g := start(t, root, s.Connect(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }), func(o *Options) { o.Timeout = 5 * time.Second })
	const callers = 1000
	got := make(chan bool, callers)
	for i := range callers {
		go func() {
			d, err := g.Allow(ctx, 1, fmt.Sprint(i%20))
			assert.NoError(t, err)
			got <- d.Allowed
		}()
	}
	admitted := 0
	for range callers {
		if <-got {
			admitted++
		}
	}
	require.Equal(t, 50, admitted)
}
