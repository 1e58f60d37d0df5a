package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/htb"
)

// Options are the settings of a Gateway. The zero Options are good for most.
type Options struct {
	// Tree names the tree: the first part of every key. Default "default".
	Tree string
	// ID tells this gateway from others, also of the same process. Default: one made up. A
	// gateway that keeps its ID across restarts must end before the next one starts.
	ID string
	// Timeout is the longest that a decision waits for Redis. Default 5 ms.
	Timeout time.Duration
	// OnOutage is what to do without Redis. Default [htb.Local].
	OnOutage htb.Outage
	// Gateways is how many there are, for [htb.Local], until Redis has told. Default 1.
	Gateways int
	// Logger gets a line when Redis ceases to answer, and when it answers again. Default
	// [slog.Default].
	Logger *slog.Logger
	// Observe is called after every call to Redis, if it is not nil, by the goroutine that made the call.
	// It must be quick, and may be called by any number of goroutines.
	Observe func(Call)
}

func (o Options) withDefaults() (Options, error) {
	if o.Tree == "" {
		o.Tree = "default"
	}
	if o.ID == "" {
		o.ID = rand.Text()
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Millisecond
	}
	if o.OnOutage == 0 {
		o.OnOutage = htb.Local
	}
	if o.Gateways == 0 {
		o.Gateways = 1
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Timeout < 0 || o.Gateways < 0 || o.OnOutage > htb.Open {
		return o, fmt.Errorf("gateway: timeout %v, %d gateways, outage %d: write a positive timeout and number, and htb.Local, Closed or Open", o.Timeout, o.Gateways, o.OnOutage)
	}
	return o, nil
}

// Gateway polices by a tree that it shares with other gateways. It may be used by any
// number of goroutines. Make it with [New] or [Load], and end it with [Gateway.Close].
type Gateway struct {
	opts    Options
	tree    *htb.Tree
	limiter *redisgcra.Limiter
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	client  redis.UniversalClient // ours to close; nil if it is not

	gateways atomic.Int64 // heard of
	out      atomic.Bool  // the loop's calls fail
	back     atomic.Bool  // a heartbeat was answered, and no decision has asked since
	counters counters

	shares     atomic.Pointer[shares]
	stop, done chan struct{} // of the loop
	close      sync.Once
}

const (
	// A breaker opens when so many calls in a row failed, and lets another try after a
	// while, if a heartbeat finds Redis back.
	failuresToOpen = 5
	probeEvery     = 100 * time.Millisecond
)

// New returns a gateway that polices by the tree that root is the root of, and shares
// classes that say so through client. A root with mistakes gives the error
// [htb.Mistakes]. That Redis does not answer is no error: the outage policy
// holds until it does. The client stays the caller's to close, after the gateway; see
// [redisgcra.New] for how to set it up.
//
// Redis is asked what other gateways have used before New returns, or ctx ends.
func New(ctx context.Context, root htb.Spec, client redis.UniversalClient, opts Options) (*Gateway, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	tree, err := htb.New(root)
	if err != nil {
		return nil, err
	}
	limiter, err := redisgcra.New(client, redisgcra.Options{Tree: opts.Tree, Timeout: opts.Timeout})
	if err != nil {
		return nil, err
	}
	g := &Gateway{opts: opts, tree: tree, limiter: limiter}
	if err := g.check(root); err != nil {
		return nil, err
	}
	g.gateways.Store(int64(opts.Gateways))
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:       probeEvery,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNotTheirs) },
		OnStateChange: g.switched,
	})
	g.stop, g.done = make(chan struct{}), make(chan struct{})
	g.shares.Store(newShares(root))
	g.start(ctx)
	return g, nil
}

// Replace makes root the tree from now on; see [htb.Tree.Replace]. A Spec with mistakes
// leaves the old tree in force.
func (g *Gateway) Replace(root htb.Spec) error {
	if err := g.check(root); err != nil {
		return err
	}
	if err := g.tree.Replace(sluice.Now(), root); err != nil {
		return err
	}
	g.shares.Store(newShares(root))
	return nil
}

// errNotTheirs tells the breaker that a call failed for what Redis cannot help.
var errNotTheirs = errors.New("the caller left")

// check returns an error if Redis cannot keep what s and those below it ask for.
func (g *Gateway) check(root htb.Spec) error {
	var errs []error
	var visit func(s htb.Spec, names []string)
	visit = func(s htb.Spec, names []string) {
		path := htb.Path(names...)
		if s.Remote || s.Sync > 0 {
			if _, err := g.leaf(path, limit(s.Rate, s.Burst), limit(s.Ceil, s.CBurst), s.Also); err != nil {
				errs = append(errs, fmt.Errorf("gateway: class %q: %w", path, err))
			}
		}
		for _, c := range s.Children {
			visit(c, append(names[:len(names):len(names)], c.Name))
		}
	}
	visit(root.Resolved(), nil)
	return errors.Join(errs...)
}

// Tree returns the tree, for its Stats. To replace it is for [Gateway.Replace]. Decisions on
// it directly do not ask Redis: where no leaf is kept there they are the gateway's own, a
// tenth sooner.
func (g *Gateway) Tree() *htb.Tree { return g.tree }

// ID returns what this gateway is called.
func (g *Gateway) ID() string { return g.opts.ID }

// Close ends the gateway: it reports what was used and not reported yet, until ctx ends,
// and lets go of its part of what is shared. Decisions that wait for Redis are made without.
func (g *Gateway) Close(ctx context.Context) (err error) {
	g.close.Do(func() {
		close(g.stop)
		select {
		case <-g.done:
			err = g.leave(ctx)
		case <-ctx.Done(): // the loop ends with the call that it makes
			err = fmt.Errorf("gateway: %w", context.Cause(ctx))
		}
		err = errors.Join(err, g.limiter.Close())
		if g.client != nil {
			err = errors.Join(err, g.client.Close())
		}
	})
	return err
}

// Allow decides on a request of cost units of the leaf that names lead to, as
// [htb.Tree.Allow] does. Errors are those of the tree, and that ctx ended while Redis was
// asked; what Redis answers or does not is none: Outage says that it should have been asked.
func (g *Gateway) Allow(ctx context.Context, cost int64, names ...string) (htb.Decision, error) {
	if g.shares.Load().remote {
		return g.askTree(ctx, cost, names)
	}
	return g.tree.Allow(sluice.Now(), cost, names...)
}

func (g *Gateway) askTree(ctx context.Context, cost int64, names []string) (htb.Decision, error) {
	p, d, err := g.tree.Ask(sluice.Now(), cost, names...)
	if p == nil {
		return d, err
	}
	return g.ask(ctx, p)
}

// Leaf is a handle on one leaf, for deciding without a lookup; see [htb.Leaf].
type Leaf struct {
	gateway *Gateway
	leaf    *htb.Leaf
}

// Leaf returns the handle on the leaf that names lead to; see [htb.Tree.Leaf].
func (g *Gateway) Leaf(names ...string) (*Leaf, error) {
	l, err := g.tree.Leaf(names...)
	if err != nil {
		return nil, err
	}
	return &Leaf{g, l}, nil
}

// Allow is [Gateway.Allow] without the lookup.
func (l *Leaf) Allow(ctx context.Context, cost int64) (htb.Decision, error) {
	if l.gateway.shares.Load().remote {
		return l.ask(ctx, cost)
	}
	return l.leaf.Allow(sluice.Now(), cost)
}

func (l *Leaf) ask(ctx context.Context, cost int64) (htb.Decision, error) {
	p, d, err := l.leaf.Ask(sluice.Now(), cost)
	if p == nil {
		return d, err
	}
	return l.gateway.ask(ctx, p)
}
