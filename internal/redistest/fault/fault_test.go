package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

const write = "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]"

// brief is how long an answer that does not come is waited for.
const brief = 50 * time.Millisecond

// before starts a server and a proxy that end with the test.
func before(t *testing.T) (*redistest.Server, *Proxy) {
	s := redistest.Run(t)
	p, err := Before(s)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		if log, err := os.ReadFile(filepath.Join(filepath.Dir(s.Socket), "log")); t.Failed() {
			t.Logf("the server's log: %v\n%s", err, log)
		}
	})
	return s, p
}

// connect returns a new client through the proxy that repeats nothing and waits for as
// long as its contexts allow.
func connect(t *testing.T, p *Proxy) *redis.Client {
	c := p.Client(func(o *redis.Options) {
		o.MaxRetries, o.DialerRetries, o.PoolSize = -1, 1, 1
		o.ReadTimeout, o.ContextTimeoutEnabled = 10*time.Second, true
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Each fault does to a script that writes what it says, as soon as it has begun, and
// nothing once it is over. What was there before is there again, but where it says so.
func TestFaults(t *testing.T) {
	ctx := context.Background()
	s, p := before(t)
	admin := s.Connect(t, nil)
	defaults, err := admin.ConfigGet(ctx, "*").Result()
	require.NoError(t, err)
	sha := ""
	for _, f := range append(OfServer(s), OfProxy(p, brief)...) {
		t.Run(f.Name, func(t *testing.T) {
			var err error
			sha, err = admin.ScriptLoad(ctx, write).Result()
			require.NoError(t, err)
			before, old := connect(t, p), connect(t, p)
			require.NoError(t, before.EvalSha(ctx, sha, []string{"kept"}, "v").Err())
			require.NoError(t, old.Ping(ctx).Err())

			start := time.Now()
			require.NoError(t, f.Begin(ctx))
			begun := time.Now()
			ask := func(c *redis.Client, arg string) (any, error) {
				timeout := 10 * time.Second
				if f.Effect == Hangs {
					timeout = brief
				}
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				return c.EvalSha(ctx, sha, []string{"k"}, arg).Result()
			}
			_, oldErr := ask(old, "old")
			got, err := ask(connect(t, p), "during")
			took := time.Since(begun)
			switch f.Effect {
			case Answers:
				require.NoError(t, err)
				require.NoError(t, oldErr)
				require.Equal(t, "during", got)
			case Errs:
				require.ErrorContains(t, err, f.Says+" ")
				require.True(t, redis.HasErrorPrefix(err, f.Says), err)
				require.Error(t, oldErr)
			case Hangs:
				var late net.Error
				require.ErrorAs(t, err, &late)
				require.True(t, late.Timeout(), err)
				require.Error(t, oldErr)
			case Breaks:
				require.Error(t, oldErr)
				require.Error(t, err)
				var late net.Error
				require.False(t, errors.As(err, &late) && late.Timeout(), err)
			}

			ending := time.Now()
			require.NoError(t, f.End(ctx))
			ended := time.Since(ending)
			after := connect(t, p)
			if f.Loses || f.Effect == Breaks || f.Says == "NOSCRIPT" || f.Says == "LOADING" { // and so are the scripts
				require.NoError(t, after.ScriptLoad(ctx, write).Err())
			}
			require.NoError(t, after.EvalSha(ctx, sha, []string{"k"}, "after").Err())
			if kept := after.Get(ctx, "kept").Err(); f.Loses {
				require.ErrorIs(t, kept, redis.Nil)
			} else {
				require.NoError(t, kept)
			}
			require.LessOrEqual(t, after.DBSize(ctx).Val(), int64(2), "nothing of the fault's own")
			t.Logf("began in %v, was met in %v (%v, %v), ended in %v", begun.Sub(start).Round(time.Millisecond),
				took.Round(time.Millisecond), oldErr, err, ended.Round(time.Millisecond))

			now, err := admin.ConfigGet(ctx, "*").Result()
			require.NoError(t, err)
			require.Equal(t, stable(defaults), stable(now), "all settings as they were")
			require.Equal(t, "master", role(t, admin))
			left, err := filepath.Glob(filepath.Join(filepath.Dir(s.Socket), "*"))
			require.NoError(t, err)
			require.ElementsMatch(t, []string{s.Socket, filepath.Join(filepath.Dir(s.Socket), "log")}, left)
		})
	}
}

// stable leaves out what only lasts until the server ends, and no fault is about.
func stable(settings map[string]string) map[string]string {
	delete(settings, "appendfsync")
	delete(settings, "rdbcompression")
	return settings
}

func role(t *testing.T, c *redis.Client) string {
	reply, err := c.Do(context.Background(), "role").Slice()
	require.NoError(t, err)
	return fmt.Sprint(reply[0])
}

// What was answered before the crash is there after it, however late.
func TestCrashKeepsWhatWasAnswered(t *testing.T) {
	ctx := context.Background()
	s := redistest.Run(t)
	c := s.Connect(t, func(o *redis.Options) { o.MaxRetries = -1 })
	f := CrashKept(s)
	done := make(chan int64)
	go func() {
		var n int64
		for {
			now, err := c.Incr(ctx, "n").Result()
			if err != nil {
				done <- n
				return
			}
			n = now
		}
	}()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, f.Begin(ctx))
	n := <-done
	require.Positive(t, n)
	require.NoError(t, f.End(ctx))
	fresh := s.Connect(t, nil)
	kept, err := fresh.Get(ctx, "n").Int64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, kept, n)
	require.LessOrEqual(t, kept, n+1, "one was not answered")
}

// For ends the fault, also when the caller has enough before.
func TestFor(t *testing.T) {
	s := redistest.Run(t)
	c := s.Connect(t, nil)
	start := time.Now()
	require.NoError(t, Pause(s).For(context.Background(), brief))
	require.GreaterOrEqual(t, time.Since(start), brief)
	require.NoError(t, c.Ping(context.Background()).Err())

	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	require.ErrorIs(t, ReadOnly(s).For(ctx, time.Hour), context.DeadlineExceeded)
	require.Equal(t, "master", role(t, c))

	// An error says which fault it is.
	require.NoError(t, s.Kill())
	require.ErrorContains(t, FlushAll(s).Begin(context.Background()), "fault: begin flushall: ")
	require.NoError(t, s.Start())
}

// A server that hangs ends with Close, too, and nothing is left of it.
func TestNothingIsLeft(t *testing.T) {
	s, err := redistest.Launch()
	if err != nil {
		redistest.Run(t) // skips or fails as it should
	}
	require.NoError(t, Pause(s).Begin(context.Background()))
	require.NoError(t, s.Close())
	require.NoDirExists(t, filepath.Dir(s.Socket))
	_, err = net.Dial("unix", s.Socket)
	require.Error(t, err)
	require.True(t, errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED), err)
	require.False(t, strings.Contains(err.Error(), "timeout"))
}
