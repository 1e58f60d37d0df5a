// Package redistest starts real Redis servers for tests and benchmarks: each of its
// own, on a Unix socket in a directory of its own, without persistence.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Binary is the program that is looked for in PATH.
const Binary = "redis-server"

const patience = 10 * time.Second

// Server is one redis-server process. It ends with this process, on Linux even if that is
// killed.
type Server struct {
	Socket string // path of its Unix socket

	dir   string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Launch starts a server and returns when it answers. It is an error that wraps
// [exec.ErrNotFound] if there is no redis-server. Further args are for it.
func Launch(args ...string) (*Server, error) {
	// Not a test's directory: the path of a socket may be no longer than 104 bytes.
	dir, err := os.MkdirTemp("", "sluice-redis")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, Socket: filepath.Join(dir, "s")}
	s.args = append([]string{"--port", "0", "--unixsocket", s.Socket, "--save", "", "--appendonly", "no",
		"--dir", dir, "--logfile", filepath.Join(dir, "log")}, args...)
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Start starts the server again after [Server.Kill], empty. Further args are for this time
// only; if they make it load what it saved, it may still be loading.
func (s *Server) Start(args ...string) error {
	s.cmd = exec.Command(Binary, append(s.args[:len(s.args):len(s.args)], args...)...)
	var err error
	if s.ended, err = begin(s.cmd); err != nil {
		return err
	}
	client := s.Client(nil)
	defer client.Close()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := client.Ping(context.Background()).Err()
		if err == nil || redis.HasErrorPrefix(err, "LOADING") {
			return nil
		}
		if s.hasEnded() || time.Now().After(until) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return errors.Join(fmt.Errorf("redistest: server does not answer: %w\n%s", err, log), s.Kill())
		}
	}
}

// begin starts a server that ends with this process, and returns what is closed when it
// has ended.
func begin(cmd *exec.Cmd) (ended chan struct{}, err error) {
	cmd.SysProcAttr = ends()
	ended = make(chan struct{})
	started := make(chan error)
	go func() {
		// The server ends with its thread, so that stays until the server has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as it should be
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return ended, nil
}

func (s *Server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Client returns a new client of the server, with the go-redis defaults but for what
// set changes. The caller closes it.
func (s *Server) Client(set func(*redis.Options)) *redis.Client {
	opts := &redis.Options{
		Network: "unix",
		Addr:    s.Socket,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket)
		},
	}
	if set != nil {
		set(opts)
	}
	return redis.NewClient(opts)
}

// Pause stops the server as SIGSTOP does: it takes connections and commands, and
// answers nothing until [Server.Resume].
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the server at once; what it knew is lost. Twice is once.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	<-s.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Close ends the server and removes what it left.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
