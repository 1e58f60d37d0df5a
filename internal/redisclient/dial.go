package redisclient

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialling is a hook that hands a pool a connection even if none could be made: its use
// fails with what the dialling failed with. A pool that is told of a failure logs it to
// stderr, each time, and after as many as it has room for tries only once in a second,
// beside all calls, so that nobody would hear of a server that is back before.
type dialling struct{}

// DialHook is of the interface [redis.Hook].
func (dialling) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return unmade{err, network, addr}, nil
		}
		return conn, nil
	}
}

// ProcessHook changes nothing.
func (dialling) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dialling) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// unmade stands for a connection that could not be made.
type unmade struct {
	err           error
	network, addr string
}

func (u unmade) Read([]byte) (int, error)         { return 0, u.err }
func (u unmade) Write([]byte) (int, error)        { return 0, u.err }
func (u unmade) Close() error                     { return nil }
func (u unmade) LocalAddr() net.Addr              { return place(u) }
func (u unmade) RemoteAddr() net.Addr             { return place(u) }
func (u unmade) SetDeadline(time.Time) error      { return nil }
func (u unmade) SetReadDeadline(time.Time) error  { return nil }
func (u unmade) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn is where a pool looks whether a connection, that nobody waited for, is dead.
func (u unmade) SyscallConn() (syscall.RawConn, error) { return nil, u.err }

type place unmade

func (p place) Network() string { return p.network }
func (p place) String() string  { return p.addr }
