package redistest

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Require is the environment variable that, set to 1, makes a missing redis-server
// fail a test instead of skipping it.
const Require = "SLUICE_REQUIRE_REDIS"

// Run starts a server that ends with the test. Without a redis-server the test is
// skipped, or fails if [Require] says so.
func Run(t testing.TB) *Server {
	t.Helper()
	s, err := Launch()
	demand(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// RunCluster starts a cluster that ends with the test, as [Run] does.
func RunCluster(t testing.TB, masters, replicas int) *Cluster {
	t.Helper()
	c, err := LaunchCluster(masters, replicas)
	demand(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func demand(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		if os.Getenv(Require) == "1" {
			t.Fatalf("%s=1: %v", Require, err)
		}
		t.Skip(err)
	}
	require.NoError(t, err)
}

// Connect returns a client of the server that is closed with the test; set may change
// its options.
func (s *Server) Connect(t testing.TB, set func(*redis.Options)) *redis.Client {
	c := s.Client(set)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Connect returns a client of the cluster that is closed with the test; set may change
// its options.
func (c *Cluster) Connect(t testing.TB, set func(*redis.ClusterOptions)) *redis.ClusterClient {
	client := c.Client(set)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
