package redisgcra

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-sluice/sluice/algo"
)

// Options are the settings of a [Limiter]. The zero Options are good for most.
type Options struct {
	// Tree is the first part of every key, see [Key]. Default "default".
	Tree string
	// Timeout is the longest that a call waits for its answer, queueing included; a
	// context may be shorter. Default 5 ms: fifty times a trip inside a data centre.
	Timeout time.Duration
	// MaxBatch is the largest number of requests in one pipeline, 1 to 4096. Default
	// 128: Redis answers it in under a millisecond, and larger ones save little more.
	MaxBatch int
	// Flights is the largest number of pipelines under way at once, 1 to 64, each on a
	// connection of its own. A further one starts when half a batch waits. Default 2:
	// Redis works on one while the other is packed. On a cluster each node has as many.
	Flights int
	// MaxQueue is the largest number of requests that wait to be sent; above it calls
	// return [ErrBusy]. Default 4096, more than are answered within a Timeout of 5 ms. It
	// is for each node of a cluster.
	MaxQueue int

	scripts scripts // default production; tests give the time as an argument
}

func (o Options) withDefaults() (Options, error) {
	if o.Tree == "" {
		o.Tree = "default"
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Millisecond
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 128
	}
	if o.Flights == 0 {
		o.Flights = 2
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = 4096
	}
	if o.scripts == (scripts{}) {
		o.scripts = production
	}
	err := checkName("tree", o.Tree, MaxName)
	if o.Timeout < 0 || o.MaxQueue < 0 {
		err = errors.Join(err, fmt.Errorf("redisgcra: timeout %v and queue of %d must not be negative", o.Timeout, o.MaxQueue))
	}
	if o.MaxBatch < 1 || o.MaxBatch > 4096 {
		err = errors.Join(err, fmt.Errorf("redisgcra: batch of %d outside 1 to 4096", o.MaxBatch))
	}
	if o.Flights < 1 || o.Flights > 64 {
		err = errors.Join(err, fmt.Errorf("redisgcra: %d flights outside 1 to 64", o.Flights))
	}
	return o, err
}

// Limiter decides on requests by state in Redis. In any window of length w, by the
// server's clock, it admits at most burst + rate*w units of a key, however many
// limiters in however many processes share it.
//
// A Limiter is safe for concurrent use; the more of it there is, the better it
// batches, so use one per Redis. Make it with [New] and call [Limiter.Allow], or make
// a [Leaf] for each class of a tree.
type Limiter struct {
	opts     Options
	prefix   string // of keys
	gateways string // key of Heartbeat
	shapes   shapes
	nodes    nodes

	epoch     uint64 // which limiter an id stands for: when it was made, in milliseconds
	exchanges atomic.Uint64
}

// New returns a limiter that talks through client: a *redis.Client, *redis.Ring or
// *redis.ClusterClient, of Redis 5 or newer. The client stays the caller's to close,
// after the limiter. Its MaxRetries do not matter (see the package comment).
//
// Set three options of the client. ContextTimeoutEnabled: then the caller of a lone
// request talks to Redis itself, in half the time (35 against 65 us on two cores shared
// with Redis): the connection's deadline ends it, at Options.Timeout or ctx's deadline;
// that ctx was cancelled it notices then. Without, a goroutine does it, and a connection
// on which nothing comes is waited for until the client's ReadTimeout, though callers
// left after Options.Timeout. A client without a ReadTimeout is an error.
//
// PoolSize: 100000. After as many dials in vain go-redis tries but once a second, and with
// its default of 10 for each CPU it was up to a second after a server came back that it
// was asked again; this way, under a millisecond. No more connections are made than are
// needed, about Flights for each server.
//
// On a cluster, DialerRetries: 1. A node that died is dialled again by the next request.
func New(client redis.UniversalClient, opts Options) (*Limiter, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	var patience time.Duration
	var heeds bool
	switch c := client.(type) {
	case nil:
		return nil, errors.New("redisgcra: no client")
	case *redis.Client:
		patience, heeds = c.Options().ReadTimeout, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		patience, heeds = c.Options().ReadTimeout, c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		patience, heeds = c.Options().ReadTimeout, c.Options().ContextTimeoutEnabled
		if patience == 0 { // its shards have the default
			patience = 3 * time.Second
		}
	default:
		return nil, fmt.Errorf("redisgcra: client of type %T: only those of go-redis are known not to repeat a decision", client)
	}
	if patience <= 0 {
		return nil, errors.New("redisgcra: the client has no ReadTimeout, so a server that hangs would never be given up")
	}
	l := &Limiter{
		opts:     opts,
		prefix:   prefix(opts.Tree),
		gateways: "htb:{" + encode(opts.Tree) + "}:gateways",
		epoch:    uint64(max(0, time.Now().UnixMilli())),
	}
	l.nodes.init(client, opts, heeds)
	return l, nil
}

// Allow decides on a request of cost units under the limit, for key: any 1 to 256
// bytes. Cost 0 takes nothing and only asks. RetryAfter and Reset are rounded up to
// the microsecond.
//
// A cost below 0 or above the burst is an error that wraps [algo.ErrCost], a bad key
// one that wraps [ErrName]. [ErrTimeout], [ErrBusy], [ErrClosed], the end of ctx and
// errors of Redis are neither yes nor no: what to do then is the caller's choice.
// After a change of limit the bucket keeps the time it needs to be full, not its
// tokens, and never more than an empty one needs.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit, cost int64) (algo.Verdict, error) {
	if err := checkName("key", key, MaxName); err != nil {
		return algo.Verdict{}, err
	}
	s, err := l.shapes.get(limit, Limit{})
	if err != nil {
		return algo.Verdict{}, err
	}
	d, err := l.decide(ctx, request{key: l.prefix + encode(key) + "}", shape: s, ways: Own, cost: cost})
	return d.Verdict, err
}

// Close refuses new requests, waits until those under way are answered or given up, and
// returns nil: after Options.Timeout at the latest if the client heeds deadlines (see
// [New]), else after its ReadTimeout.
func (l *Limiter) Close() error {
	l.nodes.close()
	return nil
}

// decide checks a request, has it answered, and says what the answer means.
func (l *Limiter) decide(ctx context.Context, r request) (Decision, error) {
	if err := r.check(); err != nil {
		return Decision{}, err
	}
	a, err := l.ask(ctx, r)
	if err != nil {
		return Decision{}, err
	}
	return r.decision(a), nil
}

// ask has a request answered.
func (l *Limiter) ask(ctx context.Context, r request) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, fmt.Errorf("redisgcra: %w", context.Cause(ctx))
	}
	a, err := l.nodes.ask(ctx, r)
	if err != nil {
		return answer{}, fmt.Errorf("redisgcra: %q: %w", r.key, err)
	}
	return a, nil
}
