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
	if errors.Is(err, exec.ErrNotFound) {
		if os.Getenv(Require) == "1" {
			t.Fatalf("%s=1: %v", Require, err)
		}
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// Connect returns a client of the server that is closed with the test; set may change
// its options.
func (s *Server) Connect(t testing.TB, set func(*redis.Options)) *redis.Client {
	c := s.Client(set)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
