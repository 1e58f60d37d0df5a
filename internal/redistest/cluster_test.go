package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A slot moves, and a replica takes over from a master that is killed.
func TestCluster(t *testing.T) {
	ctx := context.Background()
	c := RunCluster(t, 3, 1)
	client := c.Connect(t, func(o *redis.ClusterOptions) { o.DialerRetries = 1 })
	require.NoError(t, client.Set(ctx, "{k}a", "v", 0).Err())
	require.NoError(t, client.Set(ctx, "{k}b", "v", 0).Err())
	from, slot, err := c.Master(ctx, c.Nodes[0], "k")
	require.NoError(t, err)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	asked := 0
	require.NoError(t, c.Migrate(ctx, slot, from, to, func() {
		asked++
		require.Equal(t, "v", client.Get(ctx, "{k}a").Val(), "ASK")
	}))
	require.Equal(t, 3, asked)
	now, _, err := c.Master(ctx, to, "k")
	require.NoError(t, err)
	require.Equal(t, to, now)
	require.Equal(t, "v", client.Get(ctx, "{k}b").Val(), "MOVED")

	require.EqualValues(t, 1, to.Admin().Wait(ctx, 1, time.Second).Val(), "replicated")
	require.NoError(t, to.Kill())
	require.Eventually(t, func() bool {
		client.ReloadState(ctx) // else it keeps asking who is dead, for a minute
		return client.Get(ctx, "{k}a").Val() == "v"
	}, 10*time.Second, 10*time.Millisecond)
}
