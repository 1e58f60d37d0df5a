package htb

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Lease says how a [Leased] takes units in advance. The zero Lease is of use.
type Lease struct {
	// Most is the most units that a shard has in hand, 1 to 2^40. 0 means 1024.
	Most int64
	// TTL is for how long they are handed out after they were taken, 1 us to 1 s. 0 means
	// 10 ms, by which a window gets at most what ceil brings in 10 ms too much.
	TTL time.Duration
}

// Defaults of a Lease.
const (
	DefaultLeaseMost = 1024
	DefaultLeaseTTL  = 10 * time.Millisecond
)

// Leased is a handle on a leaf, like [Leaf], that decides on most requests without the
// tree's lock. It takes several units with one decision, as one request of so many would,
// and hands them out: from one shard or, where goroutines meet, from several. What is left
// after TTL goes back with the next call on the tree. Make one for a leaf, with
// [Leaf.Leased], and share it between goroutines: another one on the same leaf knows nothing
// of what this one has.
//
// No unit is handed out that was not charged before. So what it gives up is told by how
// many units the leaf has in hand, charged and not handed out yet. That is at most
//
//	L = min(shards*Most, ceil*TTL)
//
// units, with the leaf's own ceil and fewer than 8 shards for each of GOMAXPROCS. For a class above,
// L is the sum over the leased leaves below. Of the laws in the package comment
//
//   - (a) becomes: no class gets more than cburst + ceil*w + L in any window, nor a leaf more
//     than L above one of its further limits;
//   - (b) stays, of leased leaves and of others: who is inside rate*t + burst loses nothing, if
//     all requests of the leaf come through its one Leased. Those that do not, others that
//     borrow, and [Decision.Remaining], find up to L less, of which no unit is away for
//     longer than TTL;
//   - (c) stays but for what is in hand, which goes back before the leaf is refused.
//
// Only the tree refuses, once all shards have given back what they had. How much is taken
// follows what was asked lately: who asks less than once in a TTL, or has less than a unit of
// ceil in it, takes what the request costs and no more. [Tree.Stats] count what was handed out,
// not what was taken. The bound is derived in docs/adr/0014-leases.md.
type Leased struct {
	spread atomic.Pointer[spread]
	leaf   *Leaf
	lease  Lease

	leasing // guarded by the tree's mutex
}

// spread is the shards, and what a Decision of theirs says of the leaf. When another takes
// its place nothing is in hand of it, nor ever will be.
type spread struct {
	shards []shard            // as many as a power of two
	salt   uint64             // by which goroutines are told to shards
	mask   uint64             // how many there are, less 1
	says   [MaxDepth]Decision // by Up: to copy one costs 9 ns less than to fill one in
}

// shard is some units in hand.
//
// INVARIANT: what is in hand was charged to the class from, and is part of taken.
type shard struct {
	hand  atomic.Int64 // units, over upBits for how far above the leaf they were lent
	until atomic.Int64 // when they may no longer be handed out
	meets atomic.Int64 // how often goroutines met here

	// Guarded by the tree's mutex.
	from    *class // nil: nothing was taken
	taken   int64  // with what went back already
	counted int64  // of what was handed out
	more    int64  // what was taken last beyond what a request cost
	used    int64  // since asked
	asked   Time
	_       [56]byte // a pair of the cache's lines, which are fetched together
}

const (
	upBits = 3 // of MaxDepth
	upMask = 1<<upBits - 1
)

// Leased returns a handle on the same leaf that takes units in advance, as o says. An o
// out of its ranges is an error.
func (l *Leaf) Leased(o Lease) (*Leased, error) {
	const most, shortest, longest = 1 << 40, time.Microsecond, time.Second
	if o.Most == 0 {
		o.Most = DefaultLeaseMost
	}
	if o.TTL == 0 {
		o.TTL = DefaultLeaseTTL
	}
	if o.Most < 1 || o.Most > most {
		return nil, fmt.Errorf("htb: lease of class %q: Most is %d: it is 1 to %d units", l.Path(), o.Most, int64(most))
	}
	if o.TTL < shortest || o.TTL > longest {
		return nil, fmt.Errorf("htb: lease of class %q: TTL is %v: it is %v to %v", l.Path(), o.TTL, shortest, longest)
	}
	leased := &Leased{leaf: l, lease: o}
	leased.spread.Store(newSpread(1, Decision{}, nil))
	return leased, nil
}

// Path returns the leaf's path.
func (l *Leased) Path() string { return l.leaf.Path() }

// Allow is [Leaf.Allow], with the same refusals and errors. Of what was handed out, a
// Decision's Remaining and Reset are as of the latest time that the tree has seen.
func (l *Leased) Allow(now Time, cost int64) (Decision, error) {
	sp, i := l.spread.Load(), uint64(0)
	if sp.mask > 0 {
		i = sp.mine()
	}
	if up, ok := sp.shards[i].take(now, cost); ok {
		return sp.says[up], nil
	}
	return l.ask(i, now, cost)
}

// Take is [Leaf.Take].
func (l *Leased) Take(now Time, cost int64) bool {
	sp, i := l.spread.Load(), uint64(0)
	if sp.mask > 0 {
		i = sp.mine()
	}
	if _, ok := sp.shards[i].take(now, cost); ok {
		return true
	}
	d, err := l.ask(i, now, cost)
	return err == nil && d.Allowed
}

// mine returns which shard the goroutine has. It is known by where its stack lies, has the
// same shard on whatever core it runs, and to find that costs less than to ask for the
// core: ADR 14.
func (sp *spread) mine() uint64 {
	var here byte
	return uint64(uintptr(unsafe.Pointer(&here))) >> 11 * sp.salt >> 32 & sp.mask
}

// take hands out cost, if it is there. Between the loads another lease may take the place
// of one: then what is handed out is of the later one, charged as well, and until was
// not later than that one's.
func (s *shard) take(now Time, cost int64) (up int, ok bool) {
	for cost > 0 && int64(now) < s.until.Load() {
		hand := s.hand.Load()
		if hand>>upBits < cost {
			break
		}
		if s.hand.CompareAndSwap(hand, hand-cost<<upBits) {
			return int(hand & upMask), true
		}
		s.meets.Add(1)
	}
	return 0, false
}
