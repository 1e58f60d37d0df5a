package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/htb"
)

// Hold is an admitted request whose true cost is told later; see [htb.Hold].
type Hold struct {
	*htb.Hold
	gateway  *Gateway
	leaf     *redisgcra.Leaf // nil if it is not kept in Redis
	borrowed bool
	cost     int64
}

// Hold is [Gateway.Allow] for a request that will be settled: the Hold is nil unless the
// Decision is to allow it.
func (g *Gateway) Hold(ctx context.Context, most int64, names ...string) (*Hold, htb.Decision, error) {
	p, h, d, err := g.tree.AskHold(sluice.Now(), most, names...)
	if h != nil {
		return &Hold{Hold: h, gateway: g}, d, nil
	}
	if p == nil {
		return nil, d, err
	}
	d, err = g.ask(ctx, p)
	if h = p.Hold(); h == nil {
		return nil, d, err
	}
	hold := &Hold{Hold: h, gateway: g, borrowed: d.Up > 0, cost: most}
	if !d.Outage {
		hold.leaf, _ = p.Attached().(*redisgcra.Leaf)
	}
	return hold, d, nil
}

// Settle corrects the charge to what the request cost; see [htb.Hold.Settle]. Of a leaf
// in Redis it does so there, too, once: if Redis does not answer within the timeout its
// bucket stays as it was charged, or not, which the error tells. It is then settled
// nevertheless.
func (h *Hold) Settle(ctx context.Context, cost int64) error {
	if err := h.Hold.Settle(sluice.Now(), cost); err != nil {
		return err
	}
	if h.leaf == nil || cost == h.cost {
		return nil
	}
	tell, err := h.gateway.mayAsk()
	if err != nil {
		return fmt.Errorf("gateway: not settled in Redis: %w", err)
	}
	err = h.leaf.Settle(ctx, h.borrowed, cost-h.cost)
	if ctx.Err() != nil || errors.Is(err, redisgcra.ErrClosed) {
		tell(errNotTheirs)
	} else {
		tell(err)
	}
	if err != nil {
		return fmt.Errorf("gateway: settling in Redis: %w", err)
	}
	return nil
}
