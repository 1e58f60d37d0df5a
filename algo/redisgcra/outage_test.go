package redisgcra

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

// Redis that lost everything, flushed or killed and started again, costs at most one
// extra burst.
func TestLostStateCostsABurst(t *testing.T) {
	l, s := start(t, Options{}, false)
	limit := Limit{mustRate(t, 1, time.Hour), 20}
	passed := func() (n int) {
		for range 50 {
			v, err := l.Allow(context.Background(), "k", limit, 1)
			require.NoError(t, err)
			if v.Allowed {
				n++
			}
		}
		return n
	}
	require.Equal(t, 20, passed())
	require.NoError(t, s.Connect(t, nil).FlushAll(context.Background()).Err())
	require.Equal(t, 20, passed())
	require.NoError(t, s.Kill())
	_, err := l.Allow(context.Background(), "k", limit, 1)
	require.Error(t, err)
	require.NoError(t, s.Start())
	require.Eventually(t, func() bool { // go-redis dials again after a second
		_, err := l.Allow(context.Background(), "k", limit, 0)
		return err == nil
	}, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, 20, passed())
}

// Redis that forgets the script while it is in use: no error, nothing charged twice.
func TestScriptFlush(t *testing.T) {
	l, s := start(t, Options{}, false)
	ctx := context.Background()
	const callers, each, burst = 16, 200, 3000
	limit := Limit{mustRate(t, 1, 24*time.Hour), burst}
	admin := s.Connect(t, nil)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range each {
				if i%20 == 0 {
					if err := admin.ScriptFlush(ctx).Err(); err != nil {
						t.Error(err)
					}
				}
				v, err := l.Allow(ctx, "k", limit, 1)
				if err != nil {
					t.Error(err)
				} else if v.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, burst, passed.Load(), "of %d", callers*each)
}

// A server that hangs for a second: callers leave in time, no goroutine is left, and
// all is well when it goes on.
func TestHangingServer(t *testing.T) {
	const timeout = 5 * time.Millisecond
	l, s := start(t, Options{Timeout: timeout, MaxQueue: 100}, false)
	ctx := context.Background()
	limit := Limit{mustRate(t, 1, time.Minute), 1_000_000}
	ask := func() error {
		_, err := l.Allow(ctx, "k", limit, 1)
		return err
	}
	require.Eventually(t, func() bool { return ask() == nil }, 5*time.Second, time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	before := runtime.NumGoroutine()
	require.NoError(t, s.Pause())
	start := time.Now()
	var longest atomic.Int64
	var asked atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for time.Since(start) < time.Second {
				begun := time.Now()
				if err := ask(); !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrBusy) {
					t.Errorf("a server that hangs answered: %v", err)
				}
				asked.Add(1)
				for took := int64(time.Since(begun)); ; {
					if was := longest.Load(); took <= was || longest.CompareAndSwap(was, took) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls, the longest %v", asked.Load(), time.Duration(longest.Load()))
	require.Greater(t, asked.Load(), int64(500))
	require.Less(t, time.Duration(longest.Load()), 200*time.Millisecond, "two loaded cores, and the race detector")
	require.LessOrEqual(t, runtime.NumGoroutine(), before+l.opts.Flights+2, "flights, and go-redis dialling")
	require.NoError(t, s.Resume())
	require.Eventually(t, func() bool { return ask() == nil }, 2*time.Second, time.Millisecond)
	for i := 0; runtime.NumGoroutine() > before; i++ { // not Eventually, which has goroutines of its own
		require.Less(t, i, 2000)
		time.Sleep(time.Millisecond)
	}

	// What was under way when the server stopped was charged, once; what waited was not sent.
	v, err := l.Allow(ctx, "k", limit, 0)
	require.NoError(t, err)
	require.Greater(t, v.Remaining, limit.Burst-100, "of %d given up", asked.Load())
}

// A connection that breaks after the request was sent: an error, and the decision was
// made once, though the client is set to retry.
func TestNoDecisionIsMadeTwice(t *testing.T) {
	_, s := start(t, Options{}, false)
	proxy := filepath.Join(t.TempDir(), "p")
	swallow := swallower(t, proxy, s.Socket)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: proxy, MaxRetries: 5, MinRetryBackoff: time.Millisecond})
	defer client.Close()
	l, err := New(client, Options{Timeout: 5 * time.Second})
	require.NoError(t, err)
	defer l.Close()
	ctx := context.Background()
	limit := Limit{mustRate(t, 1, time.Hour), 10}
	ask := func(cost int64) (int64, error) {
		v, err := l.Allow(ctx, "k", limit, cost)
		return v.Remaining, err
	}
	left, err := ask(1)
	require.NoError(t, err)
	require.EqualValues(t, 9, left)
	swallow.Store(true)
	_, err = ask(1)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrTimeout, "the proxy hung up")
	swallow.Store(false)
	left, err = ask(0)
	require.NoError(t, err)
	require.EqualValues(t, 8, left, "charged once")

	// The guard can fail: a plain command of this client is repeated.
	swallow.Store(true)
	time.AfterFunc(20*time.Millisecond, func() { swallow.Store(false) })
	require.NoError(t, client.Incr(ctx, "n").Err())
	n, err := client.Get(ctx, "n").Int()
	require.NoError(t, err)
	require.Greater(t, n, 1)
}

// swallower listens at path and passes on to the server at to; while it swallows, it
// hangs up instead of passing on what the server answers.
func swallower(t *testing.T, path, to string) *atomic.Bool {
	var swallow atomic.Bool
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", to)
			if err != nil {
				in.Close()
				return
			}
			go func() {
				defer out.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := in.Read(buffer)
					if err != nil {
						return
					}
					_, _ = out.Write(buffer[:n])
				}
			}()
			go func() {
				defer in.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := out.Read(buffer)
					// What sets a connection up is answered otherwise than by a number or a string.
					if err != nil || swallow.Load() && strings.ContainsAny(string(buffer[:1]), ":$") {
						return
					}
					_, _ = in.Write(buffer[:n])
				}
			}()
		}
	}()
	return &swallow
}

// A caller whose context ends leaves at once, and an ended one takes nothing.
func TestContext(t *testing.T) {
	l, s := start(t, Options{}, false)
	limit := Limit{mustRate(t, 1, time.Hour), 10}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err := l.Allow(ctx, "k", limit, 1)
	require.ErrorIs(t, err, cause)
	v, err := l.Allow(context.Background(), "k", limit, 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, v.Remaining)

	require.NoError(t, s.Pause())
	soon, cancelSoon := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancelSoon()
	start := time.Now()
	_, err = l.Allow(soon, "k", limit, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), time.Second)
	require.NoError(t, s.Resume())
}

// A full queue refuses, and what was given up in it makes room.
func TestQueueIsBounded(t *testing.T) {
	l, s := start(t, Options{MaxQueue: 3, Flights: 1, Timeout: 300 * time.Millisecond}, false)
	limit := Limit{mustRate(t, 1, time.Hour), 10}
	_, err := l.Allow(context.Background(), "k", limit, 0) // connects, and brings the script
	require.NoError(t, err)
	require.NoError(t, s.Pause())
	var busy, late atomic.Int64
	var wg sync.WaitGroup
	for i := range 10 {
		if i == 1 {
			time.Sleep(50 * time.Millisecond) // the first is under way
		}
		wg.Go(func() {
			switch _, err := l.Allow(context.Background(), "k", limit, 1); {
			case errors.Is(err, ErrBusy):
				busy.Add(1)
			case errors.Is(err, ErrTimeout):
				late.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4, late.Load(), "one under way, three waiting")
	require.EqualValues(t, 6, busy.Load())
	_, err = l.Allow(context.Background(), "k", limit, 1)
	require.ErrorIs(t, err, ErrTimeout, "not busy: those who waited left")
	require.NoError(t, s.Resume())
	require.Eventually(t, func() bool {
		v, err := l.Allow(context.Background(), "k", limit, 0)
		return err == nil && v.Remaining >= 8
	}, 5*time.Second, time.Millisecond, "two were under way, nine not sent")
}

// Close answers what is under way and refuses the rest.
func TestClose(t *testing.T) {
	l, _ := start(t, Options{}, false)
	limit := Limit{mustRate(t, 1, time.Minute), 1_000_000}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				if _, err := l.Allow(context.Background(), "k", limit, 1); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, l.Close())
	wg.Wait()
	require.Zero(t, l.nodes.first.aloft)
	require.NoError(t, l.Close(), "twice is once")
}

// A client that does not heed deadlines: callers leave in time all the same, each of them,
// and decisions are as ever.
func TestClientThatHeedsNoDeadlines(t *testing.T) {
	s := redistest.Run(t)
	l, err := New(s.Connect(t, func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond }), Options{Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	require.False(t, l.nodes.first.inline)
	ctx := context.Background()
	limit := Limit{mustRate(t, 1, time.Hour), 100}
	require.Eventually(t, func() bool { // the first brings the script
		_, err := l.Allow(ctx, "k", limit, 0)
		return err == nil
	}, 5*time.Second, time.Millisecond)
	passed := atomic.Int64{}
	each(t, 8, func() error {
		for range 20 {
			if v, err := l.Allow(ctx, "k", limit, 1); err == nil && v.Allowed {
				passed.Add(1)
			} else if err != nil && !errors.Is(err, ErrTimeout) { // the cores are shared
				return err
			}
		}
		return nil
	})
	require.LessOrEqual(t, passed.Load(), int64(100))
	require.Greater(t, passed.Load(), int64(80))

	require.NoError(t, s.Pause())
	begun := time.Now()
	_, err = l.Allow(ctx, "k", limit, 0)
	require.ErrorIs(t, err, ErrTimeout)
	require.Less(t, time.Since(begun), 250*time.Millisecond, "not the client's patience")
	begun = time.Now()
	require.NoError(t, l.Close())
	require.Less(t, time.Since(begun), 3*time.Second, "but its own is waited for")
	require.NoError(t, s.Resume())
}

// Each node of a ring has a queue of its own: one that hangs delays nobody who asks
// another.
func TestRing(t *testing.T) {
	a, b := redistest.Run(t), redistest.Run(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": a.Socket, "b": b.Socket},
		Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", addr)
		},
		HeartbeatFrequency: time.Hour, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { require.NoError(t, ring.Close()) })
	l, err := New(ring, Options{Timeout: time.Second})
	require.NoError(t, err)
	ctx := context.Background()
	limit := Limit{mustRate(t, 1, time.Hour), 10}
	healthy := map[string]bool{}
	for i := range 20 {
		name := string(rune('a' + i))
		v, err := l.Allow(ctx, name, limit, 1)
		require.NoError(t, err)
		require.True(t, v.Allowed)
		key, err := Key("default", name)
		require.NoError(t, err)
		healthy[name] = a.Connect(t, nil).Exists(ctx, key).Val() == 1
	}
	require.Len(t, l.nodes.of, 2)
	require.NoError(t, b.Pause())
	var good, bad atomic.Int64
	var wg sync.WaitGroup
	for name, ok := range healthy {
		wg.Go(func() {
			switch _, err := l.Allow(ctx, name, limit, 1); {
			case err == nil && ok:
				good.Add(1)
			case errors.Is(err, ErrTimeout) && !ok:
				bad.Add(1)
			default:
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, good.Load())
	require.NotZero(t, bad.Load())
	require.NoError(t, b.Resume())
	require.NoError(t, l.Close())
	_, err = l.Allow(ctx, "a", limit, 1)
	require.ErrorIs(t, err, ErrClosed)
}

// With a PoolSize above the number of dials that fail, as New advises, all is well as soon
// as the server is back.
func TestRecoversAtOnce(t *testing.T) {
	s := redistest.Run(t)
	l, err := New(s.Connect(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.PoolSize = true, 100_000 }), Options{})
	require.NoError(t, err)
	ask := func() error {
		_, err := l.Allow(context.Background(), "k", Limit{mustRate(t, 1, time.Hour), 1}, 0)
		return err
	}
	require.Eventually(t, func() bool { return ask() == nil }, 5*time.Second, time.Millisecond)
	require.NoError(t, s.Kill())
	failed := 0
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; failed++ {
		require.Error(t, ask())
	}
	require.Greater(t, failed, 20, "more than the usual PoolSize on two cores")
	require.NoError(t, s.Start())
	back := time.Now()
	for ask() != nil {
		require.Less(t, time.Since(back), 400*time.Millisecond)
	}
	require.NoError(t, l.Close())
}
