package htb

import (
	"math"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Never is the RetryAfter of a request that waiting alone does not help: even
// with every bucket full its lenders keep too much for their other children.
const Never = time.Duration(math.MaxInt64)

// A retry time allows for children whose buckets fill up before it, and who then
// claim no more: for maxFills of them, under classes with up to maxWalk children
// filling; and for maxFlips times at which it stands elsewhere in line. Beyond that the
// time told is late, never early.
const (
	maxFills = 8
	maxWalk  = 64
	maxFlips = 32
)

// retryAfter returns how long after now need passes if nothing else comes.
func (x *class) retryAfter(now Time, need Ticks) time.Duration {
	least, ok := x.atLeast(now, need)
	if !ok {
		return Never
	}
	if at, ok := x.passesAt(least, need, x, nil, least); ok {
		return at.Sub(now)
	}
	for y := x.parent; y != nil; y = y.parent {
		y.expire(now)
	}
	for from, flips := least, 0; ; flips++ {
		at, until, last := x.places(from)
		t, ok := x.soonest(from, need, &at, until)
		switch {
		case ok:
			return t.Sub(now)
		case until == math.MaxInt64:
			return Never
		case flips == maxFlips:
			from = last
		case flips == 0: // when would it, if nobody had to leave anything to others?
			t, ok := x.soonest(least, need, &[MaxDepth]place{}, math.MaxInt64)
			if !ok {
				return Never
			}
			from = max(t, until)
		default:
			from = until
		}
	}
}

// atLeast returns the earliest time from now on at which need could pass whoever lends:
// all ceils let it pass, and the root has it under its rate.
func (x *class) atLeast(now Time, need Ticks) (at Time, ok bool) {
	at = now
	for i, b := range x.also {
		if !wait(&at, b, x.alsoTAT[i], need) {
			return 0, false
		}
	}
	for ; ; x = x.parent {
		if !wait(&at, x.ceil, x.ceilTAT, need) {
			return 0, false
		}
		if x.parent == nil {
			break
		}
	}
	ok = wait(&at, x.rate, x.rateTAT, need)
	return at, ok
}

// soonest returns the earliest time from now on, and not after last, at which somebody
// could lend need to x, if nothing else came and places stayed as they are.
func (x *class) soonest(now Time, need Ticks, places *[MaxDepth]place, last Time) (best Time, found bool) {
	for lender := x; lender != nil && last >= now; lender = lender.parent {
		if !lender.rate.Has(lender.rateTAT, last, need) {
			continue
		}
		if t, ok := x.passesAt(now, need, lender, places, last); ok {
			best, found, last = t, true, t-1
		}
	}
	return best, found
}

// places returns the places of a request of x at the classes above it, by level, until
// when they, and the claims there, stay so, and from when on they always do, if nothing
// comes.
func (x *class) places(now Time) (at [MaxDepth]place, until, last Time) {
	until, last = math.MaxInt64, now
	change := func(t Time) {
		if t > now {
			until, last = min(until, t), max(last, t)
		}
	}
	for k := 1; x.parent != nil; k++ {
		at[k] = x.place(now, at[k-1])
		x = x.parent
		for i := range x.in.clocks {
			x.in.clocks[i].changes(x.window, change)
		}
		if x.in.claim.by != nil {
			change(x.in.claim.until)
		}
	}
	return at, until, last
}

// passesAt returns the earliest time from now on, and not after last, at which lender
// could lend need to x, if nothing else came and the places on the way stayed as they
// are. By now all ceils and further limits let need pass.
//
// Each condition holds during one stretch of time: a bucket left alone fills, and
// what it has over a reserve grows until the bucket is full, then shrinks while
// the reserve still grows. So going on from condition to condition, each time to
// the earliest instant not before the last, either settles after two rounds or
// never does.
func (x *class) passesAt(now Time, need Ticks, lender *class, places *[MaxDepth]place, last Time) (Time, bool) {
	at := now
	for {
		before := at
		through := lender != x // the loan passes here, and leaves the reserve
		for k, y := 0, x; y != nil; k, y = k+1, y.parent {
			if through && y != x && !y.waitOver(&at, y.ceil, y.ceilTAT, y.leaving(now, need, y.ceilOver, places[k], x)) {
				return 0, false
			}
			switch {
			case y == lender && through:
				if !y.waitOver(&at, y.rate, y.rateTAT, y.leaving(now, need, y.rateOver, places[k], x)) {
					return 0, false
				}
				through = false
			case !through:
				if !wait(&at, y.rate, y.rateTAT, need) {
					return 0, false
				}
			}
			if at > last {
				return 0, false
			}
		}
		if at == before || lender == x { // no reserve matters
			return at, true
		}
	}
}

// wait moves at forward to when the bucket holds need; false if it never does.
func wait(at *Time, b algo.Bucket, tat, need Ticks) bool {
	if b.Has(tat, *at, need) {
		return true
	}
	t, ok := b.When(tat, need)
	*at = max(*at, t)
	return ok
}

// waitOver moves at forward to when the bucket holds need over the reserve of x;
// false if from then on it never does.
func (x *class) waitOver(at *Time, b algo.Bucket, tat, need Ticks) bool {
	w := overReserve{b, tat, need, x.promised}
	if x.oversub {
		t, ok := w.earliest(*at, math.MaxInt64, x.in.reserveTAT, x.reserve.Fill())
		*at = t
		return ok
	}
	// As if every child that is filling now went on for ever: exact, if none is full
	// before the answer, else late.
	t, ok := w.earliest(*at, math.MaxInt64, x.sumTAT, x.in.sumFill)
	if f := x.in.filling; len(f) == 0 || ok && t <= f[0].fullAt {
		*at = t
		return ok
	}
	if len(x.in.filling) <= maxWalk {
		for n, from := 0, *at; n < maxFills; n++ {
			sumTAT, sumFill, until := x.claims(from)
			if t, ok := w.earliest(from, until, sumTAT, sumFill); ok || until == math.MaxInt64 {
				*at = t
				return ok
			}
			from = until
		}
	}
	if ok {
		*at = t
		return true
	}
	// What it has over its reserve is most when it is full: then, or never.
	full, _ := b.When(tat, b.Size())
	*at = max(*at, full)
	sumTAT, sumFill, _ := x.claims(*at)
	return w.holds(*at, sumTAT, sumFill)
}

// claims returns the sums behind the reserve at a time to come, and until when
// they stay so.
func (x *class) claims(at Time) (sumTAT Ticks, sumFill uint64, until Time) {
	until = math.MaxInt64
	for _, child := range x.in.filling {
		if full := child.claimsAll(); full > at {
			sumTAT, sumFill = sumTAT.Add(child.claimTAT), sumFill+child.rate.Fill()
			until = min(until, full)
		}
	}
	return sumTAT, sumFill, until
}

// overReserve is the condition that a bucket holds need over a reserve, whose
// size is promised and which is itself a bucket or a sum of buckets.
type overReserve struct {
	bucket         algo.Bucket
	tat            Ticks
	need, promised Ticks
}

// holds says whether it is met at t, with a reserve that fills at speed and is
// full at tat.
func (w overReserve) holds(t Time, tat Ticks, speed uint64) bool {
	reserve := w.promised.Sub(tat.Sub(algo.Instant(t, speed)))
	return w.bucket.Has(w.tat, t, w.need.Add(reserve))
}

// earliest returns the first instant in [from, until] at which it is met. It can
// only begin to hold where one of these happens: the bucket holds need while the
// reserve is in debt; bucket and reserve both fill and the difference is enough;
// the reserve is full; the bucket holds need and the whole reserve.
func (w overReserve) earliest(from, until Time, tat Ticks, speed uint64) (Time, bool) {
	best, found := until, false
	try := func(t Time, ok bool) {
		if t = max(t, from); ok && t <= best && w.holds(t, tat, speed) {
			best, found = t, true
		}
	}
	try(from, true)
	if found {
		return best, true
	}
	try(w.bucket.When(w.tat, w.need))
	if fill := w.bucket.Fill(); fill > speed {
		lack := w.tat.Add(w.need).Add(w.promised).Sub(tat.Add(w.bucket.Size()))
		try(algo.Reaches(lack, fill-speed))
	}
	try(algo.Reaches(tat, speed))
	try(w.bucket.When(w.tat, w.need.Add(w.promised)))
	return best, found
}
