package fault

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// link is one connection of a client and the one to the server that belongs to it.
type link struct {
	proxy  *Proxy
	client net.Conn
	noted  *noted
	ctx    context.Context // done once the link is aborted
	cancel context.CancelFunc

	mu     sync.Mutex
	server net.Conn // nil before it is made
}

func newLink(p *Proxy, client net.Conn, number int) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{proxy: p, client: client, noted: &noted{proxy: p, conn: number}, ctx: ctx, cancel: cancel}
}

// run passes on until both sides have ended, or the link is aborted.
func (l *link) run() {
	defer l.cancel()
	if !l.proxy.pass(l.ctx, ToServer) {
		return
	}
	server, err := new(net.Dialer).DialContext(l.ctx, l.proxy.network, l.proxy.server)
	if err != nil {
		l.abort()
		return
	}
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	if l.ctx.Err() != nil { // aborted meanwhile, without the server
		reset(server)
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		hears := &commands{noted: l.noted, source: sha1.New(), digest: sha256.New()}
		l.pump(ToServer, l.client, server, hears)
	})
	both.Go(func() { l.pump(ToClient, server, l.client, &answers{noted: l.noted}) })
	both.Wait()
	l.client.Close()
	server.Close()
}

// abort resets the link's connections, at once.
func (l *link) abort() {
	l.cancel()
	reset(l.client)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		reset(l.server)
	}
}

// reset closes a connection with RST instead of FIN, where there is such a thing.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// chunk is what was read at once, nothing for the end.
type chunk struct {
	data []byte
	due  time.Time
}

// room is how many chunks may be under way in one direction; then the sender waits, as for
// a receiver that does not read. One per command, it is 50 ms of 160 000 commands/s.
const room = 8192

// pump passes on what from sends. Reading and writing are apart, so that the delay of one
// chunk does not hold up the next.
func (l *link) pump(w Way, from, to net.Conn, heard listener) {
	under := make(chan chunk, room)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(under)
		buffer := make([]byte, 1<<14)
		for {
			n, err := from.Read(buffer)
			if err != nil && !errors.Is(err, io.EOF) {
				l.abort() // as the one side was, so is the other
				return
			}
			select {
			case under <- chunk{slices.Clone(buffer[:n]), l.proxy.due(w)}:
			case <-l.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	l.write(w, under, to, &scanner{heard: heard})
	reading.Wait()
}

func (l *link) write(w Way, under <-chan chunk, to net.Conn, follow *scanner) {
	for c := range under {
		if !l.sleep(time.Until(c.due)) || !l.proxy.pass(l.ctx, w) {
			return
		}
		if len(c.data) == 0 { // the end of this direction, not of the other
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			return
		}
		follow.scan(c.data)
		if _, err := to.Write(c.data); err != nil {
			l.abort()
			return
		}
	}
}

// sleep tells whether the link was not aborted meanwhile.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}
