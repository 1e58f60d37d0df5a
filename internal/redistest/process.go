package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Process is a redis-server that listens on a TCP port of this machine, as one that is
// talked to over TLS and one that is watched by a Sentinel have to.
type Process struct {
	Addr string // host:port

	log   string
	cmd   *exec.Cmd
	said  bytes.Buffer // beside the log; to be read once it has ended
	ended chan struct{}
}

// RunTCP starts a redis-server that ends with the test, and returns when client answers
// a PING there; portFlag is --port or --tls-port. Like [Run] it skips or fails the test.
func RunTCP(t testing.TB, portFlag string, client redis.Options, args ...string) *Process {
	t.Helper()
	return run(t, client, func(port string) []string { return append([]string{portFlag, port}, args...) })
}

// run tries ports until a server has one for itself. command returns its arguments.
func run(t testing.TB, client redis.Options, command func(port string) []string) *Process {
	t.Helper()
	if _, err := exec.LookPath(Binary); err != nil && os.Getenv(Require) != "1" {
		t.Skip(err)
	}
	var err error
	for range 10 {
		var p *Process
		if p, err = spawn(t.TempDir(), command); err == nil {
			t.Cleanup(p.Kill)
			if err = p.answers(client); err == nil {
				return p
			}
		}
		if err == nil || !strings.Contains(err.Error(), "in use") { // taken meanwhile
			break
		}
	}
	require.NoError(t, err)
	return nil
}

func spawn(dir string, command func(port string) []string) (*Process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	p := &Process{Addr: addr.String(), log: filepath.Join(dir, "log")}
	if err := l.Close(); err != nil {
		return nil, err
	}
	args := append(command(strconv.Itoa(addr.Port)), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--logfile", p.log)
	p.cmd = exec.Command(Binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if p.ended, err = begin(p.cmd); err != nil {
		return nil, err
	}
	return p, nil
}

// answers waits until the server does.
func (p *Process) answers(o redis.Options) error {
	o.Addr = p.Addr
	o.MaxRetries, o.DialerRetries = -1, 1
	client := redis.NewClient(&o)
	defer client.Close()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := client.Ping(context.Background()).Err()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
		default:
			if time.Now().Before(until) {
				continue
			}
			p.Kill()
		}
		log, _ := os.ReadFile(p.log)
		return fmt.Errorf("redistest: server does not answer: %w\n%s%s", err, log, p.said.String())
	}
}

// Kill ends the server at once, as SIGKILL does. Twice is once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}
