package fault

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/algo/redisgcra"
)

// echo listens and sends back what it gets; it and a proxy in front end with the test.
func echo(t *testing.T) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c)
				c.Close()
			})
		}
	})
	p, err := NewProxy("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, l.Close())
		all.Wait()
	})
	return p
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	c, err := net.Dial("tcp", p.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// silent requires that c has nothing to read for a while.
func silent(t *testing.T, c net.Conn) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(brief)))
	n, err := c.Read(make([]byte, 1))
	var late net.Error
	require.ErrorAs(t, err, &late, "%d bytes", n)
	require.True(t, late.Timeout(), err)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
}

// says requires that c has text to read, and in time.
func says(t *testing.T, c net.Conn, text string) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// A line of 50 ms each way: 100 pieces that are sent one millisecond after the other all
// take 100 ms, and a bulk of 16 MB is not slowed down by more than that.
func TestDelayIsNotPerPiece(t *testing.T) {
	const d, pieces = 50 * time.Millisecond, 100
	p := echo(t)
	p.Delay(ToServer|ToClient, d)
	c := dial(t, p)
	var sent [pieces]time.Time
	start := time.Now()
	go func() {
		for i := range sent {
			sent[i] = time.Now()
			_, _ = c.Write([]byte{byte(i)})
			time.Sleep(time.Millisecond)
		}
	}()
	got := make([]byte, 1)
	for i := range pieces {
		_, err := io.ReadFull(c, got)
		require.NoError(t, err)
		require.EqualValues(t, i, got[0])
		require.GreaterOrEqual(t, time.Since(sent[i]), 2*d)
	}
	require.Less(t, time.Since(start), 2*d+time.Second, "5 s each way if one delayed the next")

	start = time.Now()
	bulk := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	go func() { _, _ = c.Write(bulk) }()
	back := make([]byte, len(bulk))
	_, err := io.ReadFull(c, back)
	require.NoError(t, err)
	require.True(t, bytes.Equal(bulk, back))
	took := time.Since(start)
	t.Logf("16 MB there and back in %v", took)
	require.Less(t, took, 10*time.Second, "1024 pieces of 50 ms are 51 s")

	p.Delay(ToServer, 0)
	start = time.Now()
	_, _ = c.Write([]byte("x"))
	says(t, c, "x")
	require.GreaterOrEqual(t, time.Since(start), d, "the other direction")
}

func TestReset(t *testing.T) {
	p := echo(t)
	c, other := dial(t, p), dial(t, p)
	for _, c := range []net.Conn{c, other} {
		_, _ = c.Write([]byte("x"))
		says(t, c, "x")
	}
	p.Reset()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	again := dial(t, p)
	_, _ = again.Write([]byte("y"))
	says(t, again, "y")

	require.NoError(t, p.Refuse())
	_, err = again.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", p.Addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	addr := p.Addr
	require.NoError(t, p.Heal())
	require.Equal(t, addr, p.Addr)
	healed := dial(t, p)
	_, _ = healed.Write([]byte("z"))
	says(t, healed, "z")
}

func TestHold(t *testing.T) {
	p := echo(t)
	c := dial(t, p)
	_, _ = c.Write([]byte("a"))
	says(t, c, "a")
	for _, w := range []Way{ToServer, ToClient, ToServer | ToClient} {
		p.Hold(w)
		fresh := dial(t, p) // is taken
		for _, c := range []net.Conn{c, fresh} {
			_, _ = c.Write([]byte("held"))
			silent(t, c)
		}
		require.NoError(t, p.Heal())
		says(t, c, "held")
		says(t, fresh, "held")
	}
	p.Hold(ToServer)
	_, _ = c.Write([]byte("lost"))
	silent(t, c)
	p.Reset()
	require.NoError(t, p.Heal())
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// The end of one direction is passed on, and the other goes on.
func TestHalfClose(t *testing.T) {
	p := echo(t)
	p.Delay(ToServer|ToClient, time.Millisecond)
	c := dial(t, p)
	_, _ = c.Write([]byte("last words"))
	require.NoError(t, c.CloseWrite())
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "last words", string(all))
}

// Whatever goes on, Close ends it and leaves no goroutine; and a server that is not there
// is a connection that breaks.
func TestCloseLeavesNothing(t *testing.T) {
	p := echo(t)
	count := runtime.NumGoroutine()
	for _, set := range []func(p *Proxy){
		func(p *Proxy) {},
		func(p *Proxy) { p.Delay(ToServer|ToClient, time.Hour) },
		func(p *Proxy) { p.Hold(ToServer) },
		func(p *Proxy) { p.Hold(ToClient) },
		func(p *Proxy) { require.NoError(t, p.Refuse()) },
	} {
		q, err := NewProxy("tcp", p.Addr)
		require.NoError(t, err)
		first := dial(t, q)
		_, _ = first.Write([]byte("x"))
		says(t, first, "x")
		set(q)
		for range 8 {
			if c, err := net.Dial("tcp", q.Addr); err == nil {
				defer c.Close()
				_, _ = c.Write([]byte("y"))
			}
		}
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, q.Close())
		require.NoError(t, q.Close(), "twice is once")
		require.ErrorIs(t, q.Heal(), net.ErrClosed)
		first.Close()
	}
	for i := 0; runtime.NumGoroutine() > count; i++ { // the echo's connections end a moment later
		require.Less(t, i, 2000)
		time.Sleep(time.Millisecond)
	}
}

// A client that repeats what was not answered is caught, and ours repeats nothing.
func TestRepeats(t *testing.T) {
	ctx := context.Background()
	_, p := before(t)
	repeats := p.Client(func(o *redis.Options) { o.PoolSize = 1 }) // and repeats three times
	defer repeats.Close()
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	p.Record()
	require.NoError(t, script.Run(ctx, repeats, []string{"n"}, 100).Err(), "first EVALSHA, then EVAL")
	calls := p.Calls()
	require.Len(t, calls, 2)
	require.Equal(t, []string{"EVALSHA", "NOSCRIPT"}, []string{calls[0].Name, calls[0].Answer})
	require.Equal(t, []string{"EVAL", "OK"}, []string{calls[1].Name, calls[1].Answer})
	require.Equal(t, calls[0].Digest, calls[1].Digest)
	require.Equal(t, []string{script.Hash(), script.Hash()}, []string{calls[0].Script, calls[1].Script})
	require.Empty(t, p.Repeats(), "the first did not run")

	lose := func() { // what is sent next is done, but its answer lost
		p.Hold(ToClient)
		time.AfterFunc(brief, func() {
			p.Reset()
			assert.NoError(t, p.Heal())
		})
	}
	lose()
	require.EqualValues(t, 102, script.EvalSha(ctx, repeats, []string{"n"}, 1).Val())
	calls = p.Calls()
	require.Equal(t, calls[3:], p.Repeats())
	require.Equal(t, []string{"", "OK"}, []string{calls[2].Answer, calls[3].Answer})
	require.NotEqual(t, calls[2].Conn, calls[3].Conn)

	p.Record()
	client := p.Client(nil)
	defer client.Close()
	l, err := redisgcra.New(client, redisgcra.Options{Timeout: time.Second})
	require.NoError(t, err)
	defer l.Close()
	rate, err := algo.NewRate(1, time.Hour)
	require.NoError(t, err)
	limit := redisgcra.Limit{Rate: rate, Burst: 1000}
	for cost := int64(1); cost <= 30; cost++ {
		if cost == 10 {
			lose()
		}
		_, err := l.Allow(ctx, "k", limit, cost)
		if cost == 10 {
			require.Error(t, err)
			require.NotErrorIs(t, err, redisgcra.ErrTimeout, "reset")
		} else {
			require.NoError(t, err)
		}
	}
	require.Empty(t, p.Repeats())
	require.Len(t, p.Calls(), 31, "30, and one for the script")
	v, err := l.Allow(ctx, "k", limit, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1000-30*31/2, v.Remaining)
}

// What is counted does not depend on how it is cut.
func TestCounts(t *testing.T) {
	ctx := context.Background()
	_, p := before(t)
	c := connect(t, p)
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Ping(ctx).Err() })
	require.NoError(t, err)
	for done := false; !done; { // what sets a connection up has been answered
		commands, answers := p.Counts()
		done = commands == answers
	}
	start, _ := p.Counts()
	for _, pipelined := range []int{1, 10, 1000} {
		commands, answers := p.Counts()
		_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range pipelined {
				switch i % 4 {
				case 0:
					pipe.Set(ctx, "k", bytes.Repeat([]byte("$5\r\n*1\r\n"), i), 0)
				case 1:
					pipe.Get(ctx, "k")
				case 2:
					pipe.Do(ctx, "eval", "return {1, {2, 'three', {}}, false, redis.error_reply('NO')}", "0")
				case 3:
					pipe.HGetAll(ctx, "none")
				}
			}
			return nil
		})
		require.True(t, err == nil || !errors.Is(err, io.EOF), err)
		moreCommands, moreAnswers := p.Counts()
		require.EqualValues(t, pipelined, moreCommands-commands)
		require.EqualValues(t, pipelined, moreAnswers-answers)
	}
	end, _ := p.Counts()
	require.EqualValues(t, 1011, end-start)
}

// tape hears and writes down.
type tape struct{ bytes.Buffer }

func (t *tape) head(line []byte) { t.WriteByte('['); t.Write(line) }
func (t *tape) begin(int)        { t.WriteByte('(') }
func (t *tape) part(data []byte) { t.Write(data) }
func (t *tape) tail()            { t.WriteByte(']') }

// Every kind of value, whole and in pieces of each size.
func TestScanner(t *testing.T) {
	const stream = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$9\r\n$1\r\n*2\r\nx\r\n" + "PING\r\n\r\n" +
		"+OK\r\n" + "-NOSCRIPT none\r\n" + ":1\r\n" + "$-1\r\n" + "*-1\r\n" + "*0\r\n" + "$5\r\nh\r\nyo\r\n" +
		"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n_\r\n" + "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n" +
		"~1\r\n#t\r\n" + ">2\r\n$7\r\nmessage\r\n,1.5\r\n" + "=7\r\ntxt:abc\r\n" + "!3\r\nERR\r\n" + "(12\r\n"
	const want = "[*3(SET(($1\r\n*2\r\nx][PING][+OK][-NOSCRIPT none][:1][$-1][*-1][*0][$5]" +
		"[*3][%2][~1][>2(message][=7][!3][(12]"
	for size := 1; size <= len(stream); size++ {
		heard := &tape{}
		s := scanner{heard: heard}
		r := bufio.NewReader(bytes.NewReader([]byte(stream)))
		for piece := make([]byte, size); ; {
			n, err := io.ReadFull(r, piece)
			s.scan(piece[:n])
			if err != nil {
				break
			}
		}
		require.Equal(t, want, heard.String(), "in pieces of %d", size)
	}
}
