package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestServer(t *testing.T) {
	ctx := context.Background()
	s := Run(t)
	c := s.Connect(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 50*time.Millisecond, -1 })
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())

	require.NoError(t, s.Pause())
	require.Error(t, c.Get(ctx, "k").Err())
	require.NoError(t, s.Resume())
	require.Equal(t, "v", c.Get(ctx, "k").Val())

	require.NoError(t, s.Kill())
	require.Error(t, c.Get(ctx, "k").Err())
	require.NoError(t, s.Start())
	require.ErrorIs(t, c.Get(ctx, "k").Err(), redis.Nil, "started empty")
}

// A missing server skips, and fails where it is required.
func TestMissingServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Launch()
	require.ErrorContains(t, err, Binary)
	for _, require1 := range []string{"", "1"} {
		t.Setenv(Require, require1)
		p := &probe{TB: t}
		func() {
			defer func() { require.Equal(t, stopped, recover()) }()
			Run(p)
		}()
		require.Equal(t, require1 == "1", p.failed)
		require.Equal(t, require1 != "1", p.skipped)
	}
}

const stopped = "stopped"

// probe notes how a test ends.
type probe struct {
	testing.TB
	failed, skipped bool
}

func (*probe) Helper()                 {}
func (p *probe) Fatalf(string, ...any) { p.failed = true; panic(stopped) }
func (p *probe) Skip(...any)           { p.skipped = true; panic(stopped) }
