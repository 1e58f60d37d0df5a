package redisclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

// logged collects what go-redis logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", v...)
}

// After any number of failures, a server that is back is found at once, and nothing was
// logged. A client without the hook does neither.
func TestAServerThatIsBackIsFound(t *testing.T) {
	var log logged
	redis.SetLogger(&log)
	t.Cleanup(logging.Enable)
	s := redistest.Run(t)
	c := connect(t, block(t, "addr: %s, timeout: 30ms", s.Socket)).(*redis.Client)
	bare := s.Connect(t, func(o *redis.Options) { o.DialerRetries, o.MaxRetries = 1, -1 })
	try := func(c *redis.Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Ping(ctx).Err()
	}
	require.NoError(t, try(c))
	require.NoError(t, try(bare))
	require.NoError(t, s.Kill())
	for range 3 * c.Options().PoolSize {
		err := try(c)
		require.True(t, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT), "%v", err)
	}
	require.Empty(t, log.text.String())
	for range 3 * bare.Options().PoolSize {
		require.Error(t, try(bare))
	}
	require.NotEmpty(t, log.text.String())
	require.NoError(t, s.Start())
	require.NoError(t, try(c))
	require.Error(t, try(bare))
	require.EqualValues(t, 1, c.PoolStats().TotalConns)
}

// What failed after its caller had left is not what the next call gets.
func TestAFailureThatCameLate(t *testing.T) {
	s := redistest.Run(t)
	late := make(chan struct{})
	c := s.Connect(t, func(o *redis.Options) {
		dial := o.Dialer
		o.ContextTimeoutEnabled, o.MaxRetries = true, -1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-late:
				return dial(ctx, network, addr)
			default:
				<-late
				return nil, errors.New("late")
			}
		}
	})
	c.AddHook(dialling{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Ping(ctx).Err(), context.DeadlineExceeded)
	close(late)
	require.Eventually(t, func() bool { return c.PoolStats().IdleConns == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, c.Ping(context.Background()).Err())
}
