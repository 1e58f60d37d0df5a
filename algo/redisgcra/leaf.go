package redisgcra

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Ways says how a request may pass as far as the classes above the leaf go.
type Ways uint8

// The ways. They may be added: Own|Borrow is a leaf whose ancestors would lend.
const (
	// Own: every class above has the tokens for a request within the leaf's rate.
	Own Ways = 1 << iota
	// Borrow: a class above would lend. The request counts against the leaf's ceil alone.
	Borrow
)

// Decision is the answer to one request of a [Leaf].
type Decision struct {
	// Verdict is that of the leaf, as if the classes above stayed as they are.
	// Remaining and Reset are those of the rate bucket.
	algo.Verdict
	// Borrowed: it passed, as a borrow: only the ceil bucket was charged.
	Borrowed bool
	// AtCeil: it was refused by the ceil; a refusal without it was by the rate, with
	// nobody to lend.
	AtCeil bool
	// AtAlso: it was refused by a further limit of the leaf, perhaps among others.
	AtAlso bool
	// UnderCeil is how many units the ceil bucket has left, Remaining if there is none;
	// CeilReset how long until it is full.
	UnderCeil int64
	CeilReset time.Duration
}

// Leaf is one class: two buckets, rate and ceil, and perhaps some more, in one key. It
// does not change and may be shared. Make it with [Limiter.Leaf].
type Leaf struct {
	limiter *Limiter
	key     string
	shape   *shape
}

// Leaf returns the leaf that has the key of path, see [Key]. A zero ceil is that of a
// leaf that cannot borrow; another one may not be below the rate, nor its burst. What
// passes must also be within each limit of also, 8 at most, and is charged to it.
//
// When limits change, a key keeps the buckets of rate and ceil, and those of also by their
// places, each as [Limiter.Allow] says. A bucket that is new is full, and one that is gone
// is forgotten with the next charge.
func (l *Limiter) Leaf(path string, rate, ceil Limit, also ...Limit) (*Leaf, error) {
	key, err := Key(l.opts.Tree, path)
	if err != nil {
		return nil, err
	}
	if ceil == rate { // it admits what the rate admits
		ceil = Limit{}
	}
	s, err := l.shapes.get(rate, ceil, also...)
	if err != nil {
		return nil, fmt.Errorf("leaf %q: %w", path, err)
	}
	return &Leaf{limiter: l, key: key, shape: s}, nil
}

// Key returns the Redis key that the leaf's state is in.
func (f *Leaf) Key() string { return f.key }

// Allow decides on a request of cost units that may pass in any of ways. It passes if
// the ceil and all further limits have the cost and, by Own, the rate has it too, all then
// being charged; or else, by Borrow, with all but the rate being charged. Nothing is
// charged otherwise.
// RetryAfter is the longest Duration if no waiting helps while ways stay as they are.
// Errors are as for [Limiter.Allow]; no way is an error.
func (f *Leaf) Allow(ctx context.Context, ways Ways, cost int64) (Decision, error) {
	if ways == 0 || ways > Own|Borrow {
		return Decision{}, fmt.Errorf("redisgcra: %q: ways %d are neither Own nor Borrow nor both", f.key, ways)
	}
	return f.limiter.decide(ctx, request{key: f.key, shape: f.shape, ways: ways, cost: cost})
}

// Settle corrects afterwards, by delta units, the cost of a request that passed, on the
// buckets that paid: all, but not the rate if it was borrowed. It asks nobody. A refund,
// below 0, fills no bucket above full; what is charged in excess of a bucket's tokens
// leaves it empty and is forgotten. Like a decision it is executed at most once, and
// errors are as for [Limiter.Allow].
func (f *Leaf) Settle(ctx context.Context, borrowed bool, delta int64) error {
	if delta == 0 {
		return nil
	}
	r := request{key: f.key, shape: f.shape, ways: settles, cost: delta}
	if delta < 0 {
		r.ways |= refunds
		r.cost = -max(delta, -math.MaxInt64)
	}
	if borrowed {
		r.ways |= sparesRate
	}
	_, err := f.limiter.ask(ctx, r)
	return err
}

// Further ways of a request, as the scripts know them: it settles, and how.
const (
	refunds    Ways = 1
	sparesRate Ways = 2
	settles    Ways = 4
)

// request is what a script decides on.
type request struct {
	key   string
	shape *shape
	ways  Ways
	cost  int64
	now   int64 // microseconds, in tests only
}

// general reports whether the script for any number of buckets is needed.
func (r *request) general() bool { return r.ways >= settles || len(r.shape.also) > 0 }

// check returns an error if the request could never pass.
func (r *request) check() error {
	if most := r.shape.most(); r.cost < 0 || r.cost > most {
		return fmt.Errorf("redisgcra: cost %d outside 0 to burst %d: %w", r.cost, most, algo.ErrCost)
	}
	return nil
}

// decision says what an answer means.
func (r *request) decision(a answer) Decision {
	s := r.shape
	d := Decision{
		Verdict: algo.Verdict{
			Allowed:   a.verdict != refused,
			Remaining: s.rate.remaining(a.rate),
			Reset:     s.rate.reset(a.rate),
		},
		Borrowed: a.verdict == borrowed,
	}
	d.UnderCeil, d.CeilReset = d.Remaining, d.Reset
	if s.two {
		d.UnderCeil, d.CeilReset = s.ceil.remaining(a.ceil), s.ceil.reset(a.ceil)
	}
	if d.Allowed {
		return d
	}
	switch {
	case s.two && r.ways&Borrow != 0: // the rate is no matter
	case s.two || r.ways&Own != 0:
		d.RetryAfter = s.rate.until(a.rate, r.cost)
	default: // it cannot borrow
		d.RetryAfter = math.MaxInt64
	}
	if s.two {
		wait := s.ceil.until(a.ceil, r.cost)
		d.AtCeil = wait > 0
		d.RetryAfter = max(d.RetryAfter, wait)
	}
	for i := range s.also {
		wait := s.also[i].until(a.also[i], r.cost)
		d.AtAlso = d.AtAlso || wait > 0
		d.RetryAfter = max(d.RetryAfter, wait)
	}
	return d
}
