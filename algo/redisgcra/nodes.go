package redisgcra

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// nodes is a queue for each node of a cluster or ring, and one for a lone server: a node
// that hangs delays nobody who asks another.
type nodes struct {
	client redis.UniversalClient
	opts   Options
	inline bool // see queue

	// node returns the client of the node that has a key; nil for a lone server.
	node func(ctx context.Context, key string) (*redis.Client, error)
	// known: node answers without asking a server.
	known atomic.Bool
	first queue // of all keys, until then

	mu     sync.RWMutex
	of     map[string]*queue // by the node's address
	closed bool
}

func (n *nodes) init(client redis.UniversalClient, opts Options, inline bool) {
	n.client, n.opts, n.inline = client, opts, inline
	switch c := client.(type) {
	case *redis.ClusterClient:
		n.node = c.MasterForKey
		n.first.lost = func() { c.ReloadState(context.Background()) }
	case *redis.Ring:
		n.node = func(_ context.Context, key string) (*redis.Client, error) { return c.GetShardClientForKey(key) }
	}
	n.first.lone = n.node == nil
	n.first.init(client, opts, inline)
	n.of = map[string]*queue{}
}

// ask has r answered by the node that has its key.
func (n *nodes) ask(ctx context.Context, r request) (answer, error) {
	q := &n.first
	if n.node != nil && n.known.Load() {
		q = n.queue(ctx, r.key)
	}
	a, err := q.ask(ctx, r)
	if err == nil && n.node != nil && !n.known.Load() {
		n.known.Store(true)
	}
	return a, err
}

func (n *nodes) queue(ctx context.Context, key string) *queue {
	c, err := n.node(ctx, key)
	if err != nil {
		return &n.first // which will say what is wrong
	}
	addr := c.Options().Addr
	n.mu.RLock()
	q, ok := n.of[addr]
	n.mu.RUnlock()
	if ok {
		return q
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if q, ok = n.of[addr]; !ok {
		q = &queue{lost: n.first.lost, closed: n.closed}
		q.init(n.client, n.opts, n.inline)
		n.of[addr] = q
	}
	return q
}

func (n *nodes) isClosed() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

// close closes all queues, those too that are still to come.
func (n *nodes) close() {
	n.mu.Lock()
	n.closed = true
	open := []*queue{&n.first}
	for _, q := range n.of {
		open = append(open, q)
	}
	n.mu.Unlock()
	for _, q := range open {
		q.close()
	}
}

// brokeDown reports whether err is of the way to a server, and none of its answers: its
// node may be gone. go-redis asks who has its slots after an answer of MOVED only.
func brokeDown(err error) bool {
	if err == nil {
		return false
	}
	var answer redis.Error
	return !errors.As(err, &answer)
}
