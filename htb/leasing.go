package htb

import (
	"container/heap"
	"math"
	"runtime"
	"time"
)

// This file is what a Leased does under the tree's lock: it takes units, and gives back
// what is left of them.

// leasing is the part of a Leased that the lock guards.
type leasing struct {
	plan   *plan // of the leaf, when shards were assigned
	brings int64 // units that its ceil brings in a TTL
	since  Time  // when shards were assigned
	out    int   // shards with a lease
	due    Time  // none of those ends before
	queued bool  // in the tree's heap
}

const (
	// More shards are worth it when goroutines meet at one of so many decisions: each time
	// they wait for the other's cache. By chance they meet a few times.
	crowd, chance = 64, 8
	// spreads is by how much there are more then.
	spreads = 4
	// least is what a shard may have in hand where there are several.
	least = 16
	// shardsPerCore keeps goroutines apart that run at the same time, by luck.
	shardsPerCore = 4
)

// newSpread returns shards that goroutines are told to otherwise than to those of old.
func newSpread(n int, says Decision, old *spread) *spread {
	sp := &spread{shards: make([]shard, n), salt: 0x9E3779B97F4A7C15, mask: uint64(n - 1)}
	if old != nil {
		sp.salt = old.salt*0x5851F42D4C957F2D | 1
	}
	for up := range sp.says {
		says.Up = up
		sp.says[up] = says
	}
	return sp
}

// ask decides on a request of the i-th shard, and takes more than that where it seems
// worth it.
func (l *Leased) ask(i uint64, now Time, cost int64) (d Decision, err error) {
	if cost <= 0 {
		return l.leaf.Allow(now, cost)
	}
	if l.leaf.remembers() {
		if x, verdict, passes := l.leaf.refused(now, cost); x != nil { // then nothing is in hand
			d.refusedAt(l.leaf, now, x, verdict, passes)
			return d, nil
		}
	}
	t := l.leaf.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.advance(now)
	sp := l.spread.Load()
	s := &sp.shards[i&sp.mask]
	if up, ok := s.take(now, cost); ok { // of what somebody took while this one waited
		return sp.says[up], nil
	}
	l.end(s, now)
	crowded := l.crowded(s, now, cost)
	want := s.wants(now, cost, l.lease.TTL)
	x, err := l.leaf.live(now, cost)
	if err != nil {
		return d, err
	}
	if says := l.says(x); crowded || x.plan != l.plan || says != sp.says[0] {
		sp = l.assign(x, now, crowded)
		s = &sp.shards[i&sp.mask]
		if x, err = l.leaf.live(now, cost); err != nil { // it may be another class when nothing is out
			return d, err
		}
		s.asked = now
	}
	want = min(want, l.lease.Most, l.brings/int64(len(sp.shards)), x.maxCost-cost)
	for ; want > 0; want /= 4 {
		if up, ok := x.lend(now, cost+want); ok {
			l.start(s, x, now, cost, want)
			t.changed()
			s.hand.Store(want<<upBits | int64(up))
			return sp.says[up], nil
		}
	}
	if l.out > 0 && cost <= x.maxCost && x.decide(now, x.ticks.Cost(cost)).why != 0 {
		l.recall(now)
		if x, err = l.leaf.live(now, cost); err != nil {
			return d, err
		}
	}
	err = t.take(&d, x, now, cost)
	x.park(now)
	if s.more = 0; d.Allowed {
		s.used = cost
	}
	return d, err
}

// crowded reports whether goroutines met at the shard often enough for more of them, or for
// others if there are as many as may be.
func (l *Leased) crowded(s *shard, now Time, cost int64) bool {
	met, decided := s.meets.Swap(0), s.used/cost
	return met > chance && met > decided/crowd && now.Sub(l.since) >= l.lease.TTL && l.brings >= 2*least
}

// wants returns how much more than a request costs is to be taken with it: what was asked
// lately, for a TTL. It at most doubles, since what came at once may have been all.
func (s *shard) wants(now Time, cost int64, ttl time.Duration) int64 {
	lately := float64(s.used) * float64(ttl) / float64(max(1, now.Sub(s.asked)))
	s.used, s.asked = 0, now
	return int64(min(lately, float64(2*s.more+cost)))
}

// says returns an admission by x, of the latest time that the tree has seen.
func (l *Leased) says(x *class) Decision {
	if x.slot > 0 {
		return Decision{Allowed: true, tree: l.leaf.tree, leaf: x.parent, name: x.name, at: math.MinInt64}
	}
	return Decision{Allowed: true, tree: l.leaf.tree, leaf: x, at: math.MinInt64}
}

// assign gives back all that is in hand, and goroutines new shards.
func (l *Leased) assign(x *class, now Time, crowded bool) *spread {
	old := l.spread.Load()
	n := len(old.shards)
	says := l.says(x)
	l.recall(now)
	l.plan, l.since = x.plan, now
	ceil, ttl := x.spec.Ceil, l.lease.TTL
	if l.brings = ceil.Over(ttl); ceil.Takes(l.brings) > ttl { // it rounds up
		l.brings--
	}
	if crowded {
		n *= spreads
	}
	for n > 1 && (n/2 >= shardsPerCore*runtime.GOMAXPROCS(0) || l.brings/int64(n) < least) {
		n /= 2
	}
	sp := newSpread(n, says, old)
	l.spread.Store(sp)
	return sp
}

// lend charges units to x if they pass, without a word of it: what they are used for is
// counted when it is known. up is how far above x the class is that lends.
func (x *class) lend(now Time, units int64) (up int, ok bool) {
	v := x.decide(now, x.ticks.Cost(units))
	if v.why != 0 {
		return 0, false
	}
	x.charge(now, v.by, units)
	x.borrow(now, v.by, units)
	if x.staked {
		x.unstake()
	}
	return v.by, true
}

// start begins a lease: x was charged cost, and more that is to be in hand.
func (l *Leased) start(s *shard, x *class, now Time, cost, more int64) {
	s.from, s.taken, s.counted, s.more = x, cost+more, 0, more
	s.until.Store(int64(now.Add(l.lease.TTL)))
	x.open++ // so that it is not dropped
	x.park(now)
	if l.out++; !l.queued {
		l.due, l.queued = now.Add(l.lease.TTL), true
		t := l.leaf.tree
		t.due = min(t.due, l.due)
		heap.Push(&t.leased, l)
	}
}

// end gives back what is left of a lease.
func (l *Leased) end(s *shard, now Time) {
	x := s.from
	if x == nil {
		return
	}
	hand := s.hand.Swap(0)
	left, up := hand>>upBits, int(hand&upMask)
	s.count(left, up)
	s.from = nil
	l.leaf.tree.changed()
	l.out--
	x.open--
	x.refund(now, up, left)
	x.reborrow(up, -left)
	x.park(now)
}

// count books what was handed out, when left is in hand.
func (s *shard) count(left int64, up int) {
	gone := s.taken - left - s.counted
	s.from.countSettled(up, gone)
	s.counted += gone
	s.used += gone
}

// recall gives back all that is left.
func (l *Leased) recall(now Time) {
	if l.out == 0 {
		return
	}
	shards := l.spread.Load().shards
	for i := range shards {
		l.end(&shards[i], now)
		shards[i].more = 0
	}
}

// endLeases gives back what is left of leases whose time is over.
func (t *Tree) endLeases(now Time) {
	for len(t.leased) > 0 && t.leased[0].due <= now {
		l := t.leased[0]
		l.due = math.MaxInt64
		shards := l.spread.Load().shards
		for i := range shards {
			s := &shards[i]
			if s.from == nil {
				continue
			}
			if until := Time(s.until.Load()); until > now {
				l.due = min(l.due, until)
			} else {
				l.end(s, now)
			}
		}
		if l.out > 0 {
			heap.Fix(&t.leased, 0)
		} else {
			heap.Pop(&t.leased)
		}
	}
	if t.due = math.MaxInt64; len(t.leased) > 0 {
		t.due = t.leased[0].due
	}
}

// recallLeases gives back what is left of all leases.
func (t *Tree) recallLeases(now Time) {
	for _, l := range t.leased {
		l.recall(now)
	}
}

// countLeases books what leases have handed out by now.
func (t *Tree) countLeases() {
	for _, l := range t.leased {
		shards := l.spread.Load().shards
		for i := range shards {
			if s := &shards[i]; s.from != nil {
				hand := s.hand.Load()
				s.count(hand>>upBits, int(hand&upMask))
			}
		}
	}
}

// leaseHeap orders what is out by when it is due. Ties need no order: those due together
// end together.
type leaseHeap []*Leased

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h leaseHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

func (h *leaseHeap) Push(x any) {
	l := x.(*Leased)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.queued = false
	return l
}
