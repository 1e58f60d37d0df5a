package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
	p := RunTCP(t, "--port", redis.Options{Password: "pw"}, "--requirepass", "pw")
	c := redis.NewClient(&redis.Options{Addr: p.Addr, Password: "pw", MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	require.NoError(t, c.Ping(context.Background()).Err())
	p.Kill()
	p.Kill()
	require.Error(t, c.Ping(context.Background()).Err())
}

// A server that ends at once is not waited for, and says why.

func TestProcessThatEnds(t *testing.T) {
	begin := time.Now()
	p, err := spawn(t.TempDir(), func(port string) []string { return []string{"--port", port, "--replicaof", "nobody nowhere"} })
	require.NoError(t, err)
	require.ErrorContains(t, p.answers(redis.Options{}), "Invalid master port")
	require.Less(t, time.Since(begin), patience)
	p.Kill()
}

func TestProcessSkips(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(Require, "")
	p := &probe{TB: t}
	require.PanicsWithValue(t, stopped, func() { RunTCP(p, "--port", redis.Options{}) })
	require.True(t, p.skipped)
}
