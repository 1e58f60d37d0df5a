package redistest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Master is the name by which the Sentinel of [RunSentinel] knows its master.
const Master = "mymaster"

// Watched is a master, its replica, and a Sentinel that on its own makes the replica the
// master when the master is gone for half a second.
type Watched struct {
	Master, Replica, Sentinel *Process
}

// RunSentinel starts them; they end with the test. password is asked by the Sentinel, if
// it is not "".
func RunSentinel(t testing.TB, password string) *Watched {
	t.Helper()
	fast := []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	w := &Watched{Master: RunTCP(t, "--port", redis.Options{}, fast...)}
	host, port, err := net.SplitHostPort(w.Master.Addr)
	require.NoError(t, err)
	w.Replica = RunTCP(t, "--port", redis.Options{}, append(fast, "--replicaof", host+" "+port)...)
	replica := redis.NewClient(&redis.Options{Addr: w.Replica.Addr})
	defer replica.Close()
	await(t, "the replica follows its master", func(ctx context.Context) bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
	})

	conf := "sentinel monitor " + Master + " " + host + " " + port + " 1\n" +
		"sentinel down-after-milliseconds " + Master + " 500\n" +
		"sentinel failover-timeout " + Master + " 3000\n"
	if password != "" {
		conf += "requirepass " + password + "\n"
	}
	path := filepath.Join(t.TempDir(), "sentinel.conf") // which the Sentinel writes to
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	w.Sentinel = run(t, redis.Options{Password: password}, func(port string) []string {
		return []string{path, "--sentinel", "--port", port}
	})
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: w.Sentinel.Addr, Password: password})
	defer sentinel.Close()
	await(t, "the Sentinel knows the replica", func(ctx context.Context) bool {
		list, err := sentinel.Replicas(ctx, Master).Result()
		return err == nil && len(list) == 1 && list[0]["master-link-status"] == "ok" && list[0]["flags"] == "slave"
	})
	return w
}

func await(t testing.TB, what string, done func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for !done(ctx) {
		require.NoError(t, ctx.Err(), "waiting until %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}
