package algo

import "fmt"

// Keyed keeps a limiter for every key, and no more of them than it was told.
//
// A key whose limiter is at rest, as new, is dropped: that changes no decision. It is
// found by a hand that goes round the keys, two of them with every decision, so a key
// that comes to rest is dropped within as many decisions as half the keys that are
// left. When all places are taken by keys that are not at rest, a further key shares
// one limiter with all others that found no place, until there is one, where it begins
// as new. So a flood of made-up names exhausts no memory, and makes no limit of a key
// that has a place as new: forgetting a key that is not at rest would. One that moves from the
// shared limiter to its own may get what each lets through, so up to two bursts.
//
// A decision is O(1), amortised, and allocates only when there are more keys than before.
// Keys are kept as they come: bound the length of those from outside. A Keyed is for one
// goroutine at a time.
type Keyed[K comparable] struct {
	fresh   func() Limiter
	most    int
	entries []entry[K]
	index   map[K]int // into entries
	hand    int
	others  Limiter // shared by keys without a place; nil until there was one
	spare   Limiter // of a dropped key; nil for none
	last    Time
}

type entry[K comparable] struct {
	key     K
	limiter Limiter
	rest    Time // when it is at rest; the last Time there is may stand for later
}

// NewKeyed returns a Keyed without keys, for at most so many. For a new key it calls
// fresh, which returns a limiter that is at rest.
func NewKeyed[K comparable](most int, fresh func() Limiter) (*Keyed[K], error) {
	if most < 1 || fresh == nil {
		return nil, fmt.Errorf("algo: keyed limiter for at most %d keys: write at least 1, and how a limiter is made", most)
	}
	return &Keyed[K]{fresh: fresh, most: most, index: map[K]int{}, last: earliest}, nil
}

// Len returns how many keys have a limiter of their own.
func (k *Keyed[K]) Len() int { return len(k.entries) }

// Allow decides on a request of cost units for key at now; see [Limiter].
func (k *Keyed[K]) Allow(now Time, key K, cost int64) (Verdict, error) {
	k.last = max(k.last, now)
	k.sweep()
	k.sweep()
	i, ok := k.index[key]
	if !ok {
		if i = len(k.entries); i == k.most {
			if k.others == nil {
				k.others = k.fresh()
			}
			return k.others.Allow(k.last, cost)
		}
		l := k.spare
		if k.spare = nil; l == nil {
			l = k.fresh()
		}
		k.entries = append(k.entries, entry[K]{key: key, limiter: l, rest: earliest})
		k.index[key] = i
	}
	e := &k.entries[i]
	v, err := e.limiter.Allow(k.last, cost)
	switch {
	case err != nil:
	case v.Reset == 0:
		e.rest = earliest
	default:
		e.rest = k.last.Add(v.Reset)
	}
	return v, err
}

// sweep looks at one key, and drops it if it is at rest.
func (k *Keyed[K]) sweep() {
	if k.hand >= len(k.entries) {
		k.hand = 0
	}
	if len(k.entries) == 0 || k.entries[k.hand].rest > k.last || k.entries[k.hand].rest == latest {
		k.hand++
		return
	}
	// The last takes its place, and is looked at next.
	end := len(k.entries) - 1
	k.spare = k.entries[k.hand].limiter
	delete(k.index, k.entries[k.hand].key)
	if k.hand < end {
		k.entries[k.hand] = k.entries[end]
		k.index[k.entries[k.hand].key] = k.hand
	}
	k.entries[end] = entry[K]{}
	k.entries = k.entries[:end]
}
