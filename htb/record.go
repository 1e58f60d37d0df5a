package htb

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// record is a leaf of a template between two decisions: what a class has, without
// pointers, in a cache line. Where the numbers of a leaf do not fit, it stays a class.
type record struct {
	name [inName]byte // or, of more bytes, where it lies
	at   Time         // when owed was counted, or since when nothing is
	owed [2]uint64    // what was missing from the rate and the ceil bucket
	mark uint64       // over the base of the chunk
	lo   uint64       // gets, and 24 bits of rejected
	hi   uint64       // 16 bits of rejected, borrows, and what
}

const (
	inName      = 16
	counterBits = 40
	counterMask = 1<<counterBits - 1

	// What the last byte of a record says: how long the name in it is, or else
	elsewhere = 17   // that it lies on a shelf
	pinned    = 0x80 // that a class has the state
)

func (r *record) what() uint8 { return uint8(r.hi >> 56) }

func (r *record) setWhat(w uint8) { r.hi = r.hi&(1<<56-1) | uint64(w)<<56 }

func (r *record) pinned() bool { return r.what()&pinned != 0 }

func (r *record) onShelf() bool { return r.what()&^pinned == elsewhere }

func (r *record) gets() uint64 { return r.lo & counterMask }

func (r *record) counts() counts {
	return counts{
		gets:     int64(r.gets()),
		rejected: int64(r.lo>>counterBits | r.hi&(1<<16-1)<<24),
		borrows:  int64(r.hi >> 16 & counterMask),
	}
}

func (r *record) setCounts(c counts) bool {
	if uint64(c.gets|c.rejected|c.borrows)>>counterBits != 0 || c.lends != 0 {
		return false
	}
	r.lo = uint64(c.gets) | uint64(c.rejected)<<counterBits
	r.hi = r.hi>>56<<56 | uint64(c.borrows)<<16 | uint64(c.rejected)>>24
	return true
}

// tat returns the TAT of a bucket that lacked owed at a time.
func tat(b algo.Bucket, at Time, owed uint64) Ticks { return b.Instant(at).Add(algo.Times(owed, 1)) }

// full reports whether such a bucket is full at a time to come.
func full(b algo.Bucket, at Time, owed uint64, then Time) bool {
	hi, lo := bits.Mul64(uint64(then)-uint64(at), b.Fill())
	return then >= at && (hi > 0 || lo >= owed)
}

// fillsUp returns a time, in general a little before it is full, in any case not after.
func fillsUp(b algo.Bucket, at Time, owed uint64) Time {
	const under = 1 - 1e-12 // more than the floats may round up
	return at.Add(time.Duration(min(float64(owed)/float64(b.Fill())*under, math.MaxInt64/2)))
}

// load makes x the leaf in a slot that has no class.
func (t *table) load(x *class, slot int, r *record) {
	x.slot, x.unread = slot+1, false
	x.rateTAT, x.ceilTAT = tat(x.rate, r.at, r.owed[0]), tat(x.ceil, r.at, r.owed[1])
	x.mark = t.mark(slot, r)
	t.loaded = [3]Ticks{x.rateTAT, x.ceilTAT, x.mark}
	x.counts = r.counts()
	if n := len(x.also); n > 0 {
		if len(x.alsoTAT) != n {
			x.alsoTAT = make([]Ticks, n)
		}
		owed := t.words(r)
		for i, b := range x.also {
			x.alsoTAT[i] = tat(b, r.at, owed.at(i))
		}
	}
}

// own admits on the record alone what quick would on its class, where the leaf's own rate
// pays: in 64 bits. x is the table's class for it, unread. It is for tables of leaves without
// further limits.
func (r *record) own(x *class, now Time, need Ticks, cost int64) bool {
	p, up := x.plan, x.parent
	n, ok := need.Uint64()
	if !ok || now < r.at || r.gets()+uint64(cost) > counterMask {
		return false
	}
	passed := uint64(now) - uint64(r.at)
	rate, ok := owedAfter(&p.rate, passed, r.owed[0], n)
	if !ok {
		return false
	}
	ceil := rate
	if !p.one || r.owed[0] != r.owed[1] {
		if ceil, ok = owedAfter(&p.ceil, passed, r.owed[1], n); !ok {
			return false
		}
	}
	if !up.own(now, need, cost) {
		return false
	}
	up.in.reserveTAT = up.reserve.Charge(up.in.reserveTAT, now, need)
	r.at, r.owed = now, [2]uint64{rate, ceil}
	r.lo += uint64(cost)
	return true
}

// owedAfter returns what is missing from a bucket that lacked owed a time ago, after a
// charge of need; false if it does not hold that, or what is missing no number does.
func owedAfter(b *algo.Bucket, passed, owed, need uint64) (uint64, bool) {
	hi, lo := bits.Mul64(passed, b.Fill())
	if hi > 0 || lo > owed {
		lo = owed
	}
	owed, over := bits.Add64(owed-lo, need, 0)
	size, fits := b.Size().Uint64()
	return owed, over == 0 && (!fits || owed <= size)
}

// store is its inverse; false if the numbers of x do not fit.
func (t *table) store(x *class, now Time) bool {
	slot := x.slot - 1
	r := t.record(slot)
	if !r.setCounts(x.counts) {
		return false
	}
	if x == t.scratch && t.loaded == [3]Ticks{x.rateTAT, x.ceilTAT, x.mark} && len(x.also) == 0 {
		return true
	}
	return t.storeMark(x, slot, r) && t.storeOwed(x, r, now)
}

func (t *table) storeMark(x *class, slot int, r *record) bool {
	over, ok := x.mark.Sub(t.base(slot / chunkSize)).Uint64()
	if !ok {
		t.rebase(slot/chunkSize, x.clock().low)
		over, ok = x.mark.Sub(t.base(slot / chunkSize)).Uint64()
	}
	r.mark = over
	return ok
}

// storeOwed counts what buckets lack now. That one has been full for longer is lost,
// which changes nothing as long as another is not: then since when is what counts.
func (t *table) storeOwed(x *class, r *record, now Time) bool {
	rate, ok := x.rate.Owed(x.rateTAT, now).Uint64()
	ceil, fits := x.ceil.Owed(x.ceilTAT, now).Uint64()
	any := rate | ceil
	if ok = ok && fits; len(x.also) > 0 {
		owed := t.words(r)
		for i, b := range x.also {
			o, fits := b.Owed(x.alsoTAT[i], now).Uint64()
			owed.set(i, o)
			any, ok = any|o, ok && fits
		}
	}
	if any == 0 {
		now = min(now, x.bucketsFullAt())
	}
	r.at, r.owed = now, [2]uint64{rate, ceil}
	return ok
}

// mark returns that of the record in a slot.
func (t *table) mark(slot int, r *record) Ticks {
	mark := algo.Times(r.mark, 1)
	if t.bases == nil {
		return mark
	}
	return t.base(slot / chunkSize).Add(mark)
}

func (t *table) base(chunk int) Ticks {
	if chunk >= len(t.bases) {
		return Ticks{}
	}
	return t.bases[chunk]
}

// rebase counts the marks of a chunk from another one on, than which none is less for
// all that it means.
func (t *table) rebase(chunk int, base Ticks) {
	was := t.base(chunk)
	if !was.Less(base) {
		return
	}
	for i, records := 0, t.chunk(chunk); i < len(records); i++ {
		r := &records[i]
		if over, ok := was.Add(algo.Times(r.mark, 1)).Sub(base).Uint64(); ok {
			r.mark = over
		}
	}
	for len(t.bases) <= chunk {
		t.bases = append(t.bases, Ticks{})
	}
	t.bases[chunk] = base
}

// words are what a record has on a shelf, before its name, for further limits: what was
// missing from each.
type words []byte

func (w words) at(i int) uint64     { return binary.LittleEndian.Uint64(w[8*i:]) }
func (w words) set(i int, v uint64) { binary.LittleEndian.PutUint64(w[8*i:], v) }

// restsAt returns the beginning of time if the leaf in a slot is at rest and has been for
// Idle, or else a time to come before which it is not. x is its parent.
func (t *table) restsAt(now Time, x *class, slot int) Time {
	p, r := x.template, t.record(slot)
	idle := p.spec.Idle
	if r.pinned() {
		at := t.pinned[slot].restsAt(now)
		if at < math.MaxInt64 {
			at = at.Add(idle)
		}
		if at <= now && at < math.MaxInt64 {
			return math.MinInt64
		}
		return at
	}
	was, soon := now.Add(-idle), now.Add(1)
	if !full(p.ceil, r.at, r.owed[1], was) {
		return max(soon, fillsUp(p.ceil, r.at, r.owed[1]).Add(idle))
	}
	if !full(p.rate, r.at, r.owed[0], was) {
		return max(soon, fillsUp(p.rate, r.at, r.owed[0]).Add(idle))
	}
	if len(p.also) > 0 {
		owed := t.words(r)
		for i, b := range p.also {
			if !full(b, r.at, owed.at(i), was) {
				return max(soon, fillsUp(b, r.at, owed.at(i)).Add(idle))
			}
		}
	}
	window := x.window.at(now)
	if x.in.clocks[p.turn].least(window).Less(t.mark(slot, r)) { // which changes from window to window
		return max(soon, x.window.begins(window+1))
	}
	return math.MinInt64
}
