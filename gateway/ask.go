package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/htb"
)

// ask makes the second half of a decision on a leaf that is kept in Redis.
func (g *Gateway) ask(ctx context.Context, p *htb.Pending) (htb.Decision, error) {
	leaf, err := g.attached(p)
	if err != nil { // limits that Redis cannot keep, by a replacement of the tree
		p.Cancel(sluice.Now())
		return htb.Decision{}, err
	}
	tell, err := g.mayAsk()
	if err != nil {
		return g.without(p), nil
	}
	begin := time.Now()
	d, err := leaf.Allow(ctx, ways(p), p.Cost())
	g.observe(Call{Kind: Ask, Requests: 1, Took: time.Since(begin), Err: err})
	switch {
	case err == nil:
		tell(nil)
		return p.Answer(sluice.Now(), answer(p, d)), nil
	case ctx.Err() != nil:
		tell(errNotTheirs)
		p.Cancel(sluice.Now())
		return htb.Decision{}, fmt.Errorf("gateway: %w", context.Cause(ctx))
	case errors.Is(err, redisgcra.ErrClosed):
		tell(errNotTheirs)
	default:
		tell(err)
	}
	return g.without(p), nil
}

// mayAsk returns an error if Redis is not to be asked, and otherwise what wants to be told
// how that went. After an outage a request is only asked for when a heartbeat had its
// answer in time: no request waits to find out.
func (g *Gateway) mayAsk() (tell func(error), err error) {
	switch g.breaker.State() {
	case gobreaker.StateOpen:
		return nil, gobreaker.ErrOpenState
	case gobreaker.StateHalfOpen:
		if !g.back.CompareAndSwap(true, false) {
			return nil, gobreaker.ErrTooManyRequests
		}
	}
	return g.breaker.Allow()
}

// without makes it by the outage policy.
func (g *Gateway) without(p *htb.Pending) htb.Decision {
	g.counters.alone.Add(1)
	switch now := sluice.Now(); g.opts.OnOutage {
	case htb.Closed:
		return p.Refuse(now, probeEvery)
	case htb.Open:
		return p.Pass(now)
	default:
		return p.Alone(now, int(g.gateways.Load()))
	}
}

// attached returns what asks Redis for the leaf.
func (g *Gateway) attached(p *htb.Pending) (*redisgcra.Leaf, error) {
	if leaf, ok := p.Attached().(*redisgcra.Leaf); ok {
		return leaf, nil
	}
	rate, ceil, also := p.Limits()
	leaf, err := g.leaf(p.Path(), redisgcra.Limit(rate), redisgcra.Limit(ceil), also)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	p.Attach(leaf)
	return leaf, nil
}

func (g *Gateway) leaf(path string, rate, ceil redisgcra.Limit, also []htb.Limit) (*redisgcra.Leaf, error) {
	var further []redisgcra.Limit
	for _, l := range also {
		further = append(further, redisgcra.Limit(l))
	}
	return g.limiter.Leaf(path, rate, ceil, further...)
}

func limit(rate algo.Rate, burst int64) redisgcra.Limit {
	return redisgcra.Limit{Rate: rate, Burst: burst}
}

// ways says how the request may pass. A leaf that has one bucket for rate and ceil
// borrows from it, too.
func ways(p *htb.Pending) (w redisgcra.Ways) {
	own, borrow := p.Ways()
	if rate, ceil, _ := p.Limits(); own || rate == ceil {
		w |= redisgcra.Own
	}
	if borrow {
		w |= redisgcra.Borrow
	}
	return w
}

func answer(p *htb.Pending, d redisgcra.Decision) htb.Answer {
	rate, ceil, _ := p.Limits()
	a := htb.Answer{
		Allowed: d.Allowed, Borrowed: d.Borrowed, Reason: htb.NothingToBorrow, RetryAfter: d.RetryAfter,
		Owed: [2]time.Duration{d.Reset, d.CeilReset},
	}
	switch {
	case d.Allowed:
		a.Reason = 0
	case d.AtAlso:
		a.Reason = htb.AlsoLimit
	case d.AtCeil || rate == ceil:
		a.Reason = htb.AtCeil
	}
	return a
}

// switched logs and counts what the breaker does.
func (g *Gateway) switched(_ string, from, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		g.back.Store(false)
		if from == gobreaker.StateClosed {
			g.counters.opened.Add(1)
			g.opts.Logger.Warn("sluice: Redis does not answer decisions", "tree", g.opts.Tree, "onOutage", g.opts.OnOutage)
		}
	case gobreaker.StateClosed:
		g.opts.Logger.Info("sluice: Redis answers decisions again", "tree", g.opts.Tree)
	}
}
