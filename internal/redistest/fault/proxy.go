package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-sluice/sluice/internal/redistest"
)

// Way is a direction through a proxy; both are ToServer|ToClient.
type Way uint8

// The two directions.
const (
	ToServer Way = 1 << iota
	ToClient
)

// index is that of a single direction.
func (w Way) index() int { return int(w) - 1 }

func (w Way) each(f func(i int)) {
	for _, one := range []Way{ToServer, ToClient} {
		if w&one != 0 {
			f(one.index())
		}
	}
}

// Proxy listens for TCP connections and makes one to a server for each. It is safe for use
// by many goroutines.
type Proxy struct {
	Addr string // where it listens

	network, server string
	background      sync.WaitGroup

	mu       sync.Mutex // guards what follows
	closed   bool
	listener net.Listener // nil while it refuses
	links    map[*link]struct{}
	accepted int
	delay    [2]time.Duration
	held     [2]chan struct{} // nil if not; closed when it is over

	commands, answers int64
	recording         bool
	era               int // how often Record was called
	calls             []Call
}

// NewProxy starts a proxy in front of the server at an address as [net.Dial] takes it. The
// caller closes it.
func NewProxy(network, address string) (*Proxy, error) {
	p := &Proxy{Addr: "127.0.0.1:0", network: network, server: address, links: map[*link]struct{}{}}
	if err := p.Heal(); err != nil {
		return nil, err
	}
	return p, nil
}

// Before starts a proxy in front of a server.
func Before(s *redistest.Server) (*Proxy, error) { return NewProxy("unix", s.Socket) }

// Client returns a client of the server through the proxy, with the go-redis defaults but
// for what set changes. The caller closes it.
func (p *Proxy) Client(set func(*redis.Options)) *redis.Client {
	opts := &redis.Options{Addr: p.Addr}
	if set != nil {
		set(opts)
	}
	return redis.NewClient(opts)
}

// Delay makes what comes from now on take d longer, 0 for no longer. It is a line that is
// longer, not narrower: what comes after 1 ms arrives 1 ms later.
func (p *Proxy) Delay(w Way, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.each(func(i int) { p.delay[i] = d })
}

// Hold passes nothing on until [Proxy.Heal], and then what was held, as TCP does after a
// partition. Connections are taken; one that is held to the server has not reached it.
func (p *Proxy) Hold(w Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.each(func(i int) {
		if p.held[i] == nil {
			p.held[i] = make(chan struct{})
		}
	})
}

// Reset resets all connections, on both sides; what they held is lost.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLocked()
}

func (p *Proxy) resetLocked() {
	for l := range p.links {
		l.abort()
	}
}

// Refuse resets all connections and refuses new ones until [Proxy.Heal].
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuseLocked()
}

func (p *Proxy) refuseLocked() (err error) {
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	p.resetLocked()
	return err
}

// Heal ends all that was asked of the proxy. It fails if another took the address while
// the proxy did not listen there.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("fault: proxy: %w", net.ErrClosed)
	}
	p.delay = [2]time.Duration{}
	for i, held := range p.held {
		if held != nil {
			close(held)
			p.held[i] = nil
		}
	}
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return fmt.Errorf("fault: proxy: %w", err)
	}
	p.listener, p.Addr = listener, listener.Addr().String()
	p.background.Go(func() { p.accept(listener) })
	return nil
}

// Close ends the proxy and its connections; no goroutine of it is left. Twice is once.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	err := p.refuseLocked()
	p.mu.Unlock()
	p.background.Wait()
	return err
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of one connection that is gone already, or too many
			time.Sleep(time.Millisecond)
			continue
		}
		p.mu.Lock()
		p.accepted++
		l := newLink(p, client, p.accepted)
		if p.listener != listener { // refused meanwhile
			l.abort()
		}
		p.links[l] = struct{}{}
		p.background.Go(func() {
			l.run()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
		p.mu.Unlock()
	}
}

// pass waits until nothing is held in a direction; it tells whether that was before ctx
// was done.
func (p *Proxy) pass(ctx context.Context, w Way) bool {
	for {
		p.mu.Lock()
		held := p.held[w.index()]
		p.mu.Unlock()
		if held == nil {
			return ctx.Err() == nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return false
		}
	}
}

// due returns when what comes now is to be passed on.
func (p *Proxy) due(w Way) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay[w.index()])
}
