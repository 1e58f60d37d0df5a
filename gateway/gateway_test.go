package gateway

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
)

func connect(t testing.TB, s *redistest.Server) *redis.Client {
	return s.Connect(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
}

func start(t testing.TB, root htb.Spec, client redis.UniversalClient, set func(*Options)) *Gateway {
	o := Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Timeout: 200 * time.Millisecond}
	if set != nil {
		set(&o)
	}
	g, err := New(context.Background(), root, client, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// A client's quota is the same at every gateway, and in the next process.
func TestALeafInRedisIsOne(t *testing.T) {
	s := redistest.Run(t)
	root := htb.Spec{Rate: algo.PerSecond(1000), Children: []htb.Spec{
		{Name: "*", Rate: slow(t), Burst: 10, Ceil: slow(t), Remote: true},
	}}
	ctx := context.Background()
	a, b := start(t, root, connect(t, s), nil), start(t, root, connect(t, s), nil)
	for i := range 10 {
		d, err := [...]*Gateway{a, b}[i%2].Allow(ctx, 1, "alice")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.False(t, d.Outage)
	}
	c := start(t, root, connect(t, s), nil)
	for _, g := range []*Gateway{a, b, c} {
		d, err := g.Allow(ctx, 1, "alice")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, htb.AtCeil, d.Reason)
		require.Greater(t, d.RetryAfter, time.Second)
	}
	require.EqualValues(t, 5, a.Tree().Stats(0)[0].Gets)
	require.Equal(t, 3, c.Stats().Gateways)
}

func slow(t testing.TB) algo.Rate {
	r, err := algo.NewRate(1, time.Hour)
	require.NoError(t, err)
	return r
}

// A leaf that borrows from a class above does so in one trip.
func TestALeafInRedisBorrows(t *testing.T) {
	s := redistest.Run(t)
	root := htb.Spec{Rate: algo.PerSecond(1000), Children: []htb.Spec{
		{Name: "a", Rate: algo.PerSecond(1), Burst: 2, Ceil: algo.PerSecond(1000), CBurst: 50, Remote: true},
	}}
	ctx := context.Background()
	g := start(t, root, connect(t, s), nil)
	own, borrowed := 0, 0
	for range 40 {
		d, err := g.Allow(ctx, 1, "a")
		require.NoError(t, err)
		require.True(t, d.Allowed, "%v", d)
		if d.Up == 0 {
			own++
		} else {
			borrowed++
		}
	}
	require.Equal(t, 2, own)
	require.Equal(t, 38, borrowed)
	require.EqualValues(t, 40, g.Stats().Asked)
	rows := g.Tree().Stats(0)
	require.EqualValues(t, 38, rows[0].Lends)
	require.EqualValues(t, 38, rows[1].Borrows)
}
