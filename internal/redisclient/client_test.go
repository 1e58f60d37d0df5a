package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/redistest"
)

const (
	hidden   = "hunter2-hunter2"
	variable = "SLUICE_TEST_PASSWORD"
)

// block reads what a tree file says under redis:.
func block(t testing.TB, lines string, args ...any) *config.Redis {
	t.Helper()
	f, err := config.Parse("tree.yaml", fmt.Appendf(nil, "tree: t\nredis: {"+lines+"}\nglobal: {rate: 1/s}\n", args...))
	require.NoError(t, err)
	return f.Redis
}

func connect(t testing.TB, r *config.Redis) redis.UniversalClient {
	t.Helper()
	c, err := New(r)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// long is a context for what is not a decision.
func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestSocket(t *testing.T) {
	s := redistest.Run(t)
	r := block(t, "addr: %s, db: 3, timeout: 30ms", s.Socket)
	c := connect(t, r)
	ctx := long(t)
	require.NoError(t, Warm(ctx, c, 3))
	info, err := c.ClientInfo(ctx).Result()
	require.NoError(t, err)
	require.Equal(t, Name, info.Name)
	require.Equal(t, 3, info.DB)
	require.Empty(t, info.LibName, "a trip that nobody needs")
	require.EqualValues(t, 3, c.PoolStats().TotalConns)
	require.EqualValues(t, 3, c.PoolStats().IdleConns)

	o := c.(*redis.Client).Options()
	require.True(t, o.ContextTimeoutEnabled)
	require.Zero(t, o.MaxRetries, "-1, as go-redis keeps it")
	require.Equal(t, 30*time.Millisecond, o.PoolTimeout)
	for _, d := range []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout} {
		require.Equal(t, 2*time.Second, d)
	}
	c = connect(t, block(t, "addr: 'a:1', timeout: 3s"))
	require.Equal(t, 12*time.Second, c.(*redis.Client).Options().ReadTimeout)
}

func TestACL(t *testing.T) {
	s := redistest.RunTCP(t, "--port", redis.Options{Username: "sluice", Password: hidden},
		"--user", "sluice", "on", ">"+hidden, "~*", "&*", "+@all", "--user", "default", "off")
	file := filepath.Join(t.TempDir(), "password")
	t.Setenv(variable, hidden)
	for _, content := range []string{hidden, hidden + "\n", hidden + "\r\n"} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		c := connect(t, block(t, "addr: '%s', user: sluice, passwordFile: %s", s.Addr, file))
		require.Equal(t, "sluice", c.Do(long(t), "acl", "whoami").Val())
	}
	c := connect(t, block(t, "addr: '%s', user: sluice, passwordEnv: %s", s.Addr, variable))
	require.Equal(t, "sluice", c.Do(long(t), "acl", "whoami").Val())

	require.NoError(t, os.WriteFile(file, []byte(hidden+"\n\n"), 0o600)) // the second line break is the password's
	c = connect(t, block(t, "addr: '%s', user: sluice, passwordFile: %s", s.Addr, file))
	require.ErrorContains(t, c.Ping(long(t)).Err(), "WRONGPASS")
	c = connect(t, block(t, "addr: '%s'", s.Addr))
	require.ErrorContains(t, c.Ping(long(t)).Err(), "NOAUTH")
}

// Whatever is printed, of whatever has to do with a password: it is not in there.
func TestPasswordIsNeverShown(t *testing.T) {
	s := redistest.RunTCP(t, "--port", redis.Options{Password: "another"}, "--requirepass", "another")
	t.Setenv(variable, hidden)
	f, err := config.Parse("tree.yaml", fmt.Appendf(nil, "tree: t\nredis: {addr: '%s', user: u, passwordEnv: %s}\nglobal: {rate: 1/s}\n", s.Addr, variable))
	require.NoError(t, err)
	c := connect(t, f.Redis)
	refused := c.Ping(long(t)).Err()
	require.ErrorContains(t, refused, "WRONGPASS")
	warmed := Warm(long(t), c, 2)
	require.ErrorContains(t, warmed, "WRONGPASS")
	watched := connect(t, block(t, "addr: '%s', sentinel: m, sentinelPasswordEnv: %[2]s, passwordEnv: %[2]s", s.Addr, variable))
	lost := watched.Ping(long(t)).Err()
	require.Error(t, lost)
	cluster := connect(t, block(t, "addr: '%s', cluster: true, passwordEnv: %s", s.Addr, variable))
	none := cluster.Ping(long(t)).Err()
	require.Error(t, none)

	var dump strings.Builder
	for _, v := range []any{f, *f, f.Redis, *f.Redis, refused, warmed, lost, none, c, watched, cluster,
		c.(*redis.Client).Options(), *c.(*redis.Client).Options(), watched.(*redis.Client).Options(), *cluster.(*redis.ClusterClient).Options()} {
		fmt.Fprintf(&dump, "%v %+v %#v\n", v, v, v)
	}
	require.Contains(t, dump.String(), variable)
	require.NotContains(t, dump.String(), hidden)
}

func TestSecretsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	path := func(name, content string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(content), 0o600))
		return p
	}
	t.Setenv(variable, "")
	for _, step := range []struct{ block, want string }{
		{"passwordEnv: SLUICE_TEST_UNSET", "redisclient: passwordEnv: the environment variable SLUICE_TEST_UNSET is not set"},
		{"passwordEnv: " + variable, "redisclient: passwordEnv: the environment variable " + variable + " is empty"},
		{"passwordFile: " + dir + "/none", "redisclient: passwordFile: open " + dir + "/none: no such file or directory"},
		{"passwordFile: " + dir, "redisclient: passwordFile: read " + dir + ": is a directory"},
		{"passwordFile: " + path("empty", "\n"), "redisclient: passwordFile: " + dir + "/empty is empty"},
		{"passwordFile: /dev/zero", "redisclient: passwordFile: /dev/zero has more than 65536 bytes"},
		{"tls: {ca: " + dir + "/none}", "redisclient: tls: ca: open " + dir + "/none: no such file or directory"},
		{"tls: {ca: " + path("ca", hidden) + "}", "redisclient: tls: ca: " + dir + "/ca holds no certificate in PEM"},
		{"tls: {cert: " + path("cert", hidden) + ", key: " + path("key", hidden) + "}",
			"redisclient: tls: cert " + dir + "/cert and key " + dir + "/key: tls: failed to find any PEM data in certificate input"},
		{"sentinel: m, passwordEnv: SLUICE_TEST_UNSET, sentinelPasswordFile: " + dir + "/none, tls: {ca: " + dir + "/none}",
			"redisclient: passwordEnv: the environment variable SLUICE_TEST_UNSET is not set\n" +
				"redisclient: sentinelPasswordFile: open " + dir + "/none: no such file or directory\n" +
				"redisclient: tls: ca: open " + dir + "/none: no such file or directory"},
	} {
		_, err := New(block(t, "addr: 'localhost:1', "+step.block))
		require.EqualError(t, err, step.want)
	}
	_, err := New(nil)
	require.EqualError(t, err, "redisclient: the tree file has no redis: block")
	require.ErrorContains(t, Warm(long(t), nil, 1), "<nil>")
}

func TestTLS(t *testing.T) {
	certs := redistest.MakeCerts(t, "redis.test")
	with := "addr: '%[1]s', tls: {ca: %[2]s, cert: %[3]s, key: %[4]s"
	said := func(addr string) *config.Redis { return block(t, with+"}", addr, certs.CA, certs.Cert, certs.Key) }
	ready, err := tlsConfig(said("localhost:1").TLS)
	require.NoError(t, err)
	s := redistest.RunTCP(t, "--tls-port", redis.Options{TLSConfig: ready}, append(certs.Args(), "--port", "0")...)

	require.NoError(t, connect(t, said(s.Addr)).Ping(long(t)).Err())
	named := block(t, with+", serverName: redis.test}", s.Addr, certs.CA, certs.Cert, certs.Key)
	require.NoError(t, connect(t, named).Ping(long(t)).Err())
	for _, step := range []struct {
		r    *config.Redis
		want string
	}{
		{block(t, "addr: '%s', tls: true", s.Addr), "certificate signed by unknown authority"},
		{block(t, with+", serverName: other.test}", s.Addr, certs.CA, certs.Cert, certs.Key), "certificate is valid for redis.test, not other.test"},
		{block(t, "addr: '%s', tls: {ca: %s}", s.Addr, certs.CA), "certificate required"},
	} {
		require.ErrorContains(t, connect(t, step.r).Ping(long(t)).Err(), step.want)
	}
	require.Error(t, connect(t, block(t, "addr: '%s'", s.Addr)).Ping(long(t)).Err(), "not in the clear")
}

// The client follows a failover, and takes up with the new master what it did.
func TestSentinel(t *testing.T) {
	s := redistest.RunSentinel(t, hidden)
	t.Setenv(variable, hidden)
	c := connect(t, block(t, "addr: '%s', sentinel: %s, sentinelPasswordEnv: %s", s.Sentinel.Addr, redistest.Master, variable))
	ctx := long(t)
	require.NoError(t, Warm(ctx, c, 2))
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.NoError(t, c.Do(ctx, "wait", 1, 1000).Err(), "the replica has it")

	s.Master.Kill()
	begin := time.Now()
	for {
		once, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		err := c.Set(once, "k2", "v", 0).Err()
		cancel()
		if err == nil {
			break
		}
		require.Less(t, time.Since(begin), 20*time.Second, "%v", err)
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("followed after %v", time.Since(begin))
	require.Equal(t, "v", c.Get(ctx, "k").Val())
	require.Contains(t, c.Info(ctx, "replication").Val(), "role:master")
}

func TestCluster(t *testing.T) {
	s := redistest.RunTCP(t, "--port", redis.Options{}, "--cluster-enabled", "yes")
	ctx := long(t)
	node := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer node.Close()
	require.NoError(t, node.ClusterAddSlotsRange(ctx, 0, 16383).Err())
	require.Eventually(t, func() bool { return strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok") }, 10*time.Second, 10*time.Millisecond)

	c := connect(t, block(t, "addr: ['localhost:1', '%s'], cluster: true", s.Addr))
	require.IsType(t, &redis.ClusterClient{}, c)
	require.NoError(t, Warm(ctx, c, 2))
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.EqualValues(t, 2, c.PoolStats().TotalConns)
}

// A call ends at its deadline, whatever a connection waits for: an answer, or TLS to be
// agreed on.
func TestDeadline(t *testing.T) {
	s := redistest.Run(t)
	c := connect(t, block(t, "addr: %s", s.Socket))
	require.NoError(t, Warm(long(t), c, 1))
	require.NoError(t, s.Pause())
	defer func() { require.NoError(t, s.Resume()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	defer l.Close()
	for _, c := range []redis.UniversalClient{c, connect(t, block(t, "addr: '%s', tls: true", l.Addr())), connect(t, block(t, "addr: '%s'", l.Addr()))} {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			begin := time.Now()
			require.Error(t, c.Ping(ctx).Err())
			require.Less(t, time.Since(begin), time.Second, "%v", c)
			cancel()
		}
	}
}

// On a slow link a call has no time to greet a server as well; Warm has.
func TestWarm(t *testing.T) {
	const trip = 100 * time.Millisecond
	s := redistest.RunTCP(t, "--port", redis.Options{})
	addr := slow(t, s.Addr, trip)
	call := func(c redis.UniversalClient) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*trip)
		defer cancel()
		return c.Ping(ctx).Err()
	}
	c := connect(t, block(t, "addr: '%s'", addr))
	for range 3 {
		require.Error(t, call(c))
	}
	require.NoError(t, Warm(long(t), c, 2))
	for range 3 {
		require.NoError(t, call(c))
	}
}

// slow returns the address of a proxy of to, over which each trip takes so long.
func slow(t testing.TB, to string, trip time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			down, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				_ = down.Close()
				continue
			}
			pass := func(to, from net.Conn, after time.Duration) {
				defer to.Close()
				for buf := make([]byte, 1<<16); ; {
					n, err := from.Read(buf)
					time.Sleep(after)
					if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
						return
					}
				}
			}
			go pass(up, down, trip)
			go pass(down, up, 0)
		}
	}()
	return l.Addr().String()
}
