package redisgcra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Report is what one copy of a class, that of one gateway, has used.
type Report struct {
	Path       string   // of the class, see [Key]
	Rate, Ceil Limit    // a zero Ceil: there is only one bucket
	Used       [2]int64 // units charged to rate and ceil since the copy was made; refunds lessen it
	Base       [2]int64 // Used in the last report that was answered, 0 before the first
	// Copy tells this copy of the class from one of the same gateway before it, whose Used
	// it does not carry on; modulo 2048.
	Copy uint64
}

// Shared is the state that all copies of a class share, after a report was booked.
type Shared struct {
	// Owed is how long until the bucket of rate and of ceil is full, rounded up to the
	// nanosecond. What is above burst/rate is a debt.
	Owed [2]time.Duration
	// Total is the units that all copies have booked since the key exists: only
	// differences mean something.
	Total [2]int64
	// Gateways is how many were heard of within their TTL, this one included.
	Gateways int
	// Err says why the report has no answer; then it may have been booked or not.
	Err error
}

// shortest and longest TTL of a gateway.
const (
	minTTL = time.Millisecond
	maxTTL = 366 * 24 * time.Hour
)

// Exchange books reports and reads back, into answers, as long as reports, what all
// gateways have booked: for classes that every gateway decides on by its own copy, so
// that Redis is not on the way of a request. One pipeline carries all reports, each on a
// key of its own, [Key] and ":sync". The error says that there is no answer to some, or
// none at all: of a bad argument, or as for [Limiter.Allow]. Options.Timeout does not bound
// the call; ctx does, if the client heeds deadlines, and else its ReadTimeout and retries.
// On a cluster it takes as long as its slowest node, but the others' answers are there.
//
// Booking is unconditional, as what is reported did pass: the TAT becomes max(now, TAT)
// and units/rate, and so may be further ahead than an empty bucket's, a debt; it never
// falls below now. With g gateways no report brings it further ahead than burst/rate +
// g*(burst/rate + 2*ttl): more, after Redis was away for long, is forgiven. A debt stays,
// also when those that made it are not heard of any more. A clock of the server that falls back takes all times
// along.
//
// Redis keeps what each gateway has booked, so that a report that comes twice, or in
// vain, or after a later one, changes nothing: an exchange may be repeated, and go-redis
// does so. Where a gateway is not known, as it was silent for longer than ttl or Redis
// lost its data, what it used since Base is booked. Lost data costs at most one extra
// burst, and what debts there were.
//
// An id, any 1 to 256 bytes, names one set of copies: those of one limiter in one
// process. Another limiter with that id, such as after a restart, is known not to carry
// on, nor is a report with another Copy.
func (l *Limiter) Exchange(ctx context.Context, id string, ttl time.Duration, reports []Report, answers []Shared) error {
	return l.exchange(ctx, exchange{id: id, ttl: ttl, number: l.exchanges.Add(1)}, reports, answers)
}

// exchange is what the reports of one call have in common.
type exchange struct {
	id     string
	ttl    time.Duration
	number uint64 // of the call, from 1
	now    int64  // microseconds, in tests only
}

func (l *Limiter) exchange(ctx context.Context, e exchange, reports []Report, answers []Shared) error {
	if len(answers) != len(reports) {
		return fmt.Errorf("redisgcra: %d answers for %d reports", len(answers), len(reports))
	}
	if err := l.checkGateway(ctx, e.id, e.ttl); err != nil {
		return err
	}
	keys, shapes := make([]string, len(reports)), make([]*shape, len(reports))
	var missing []int
	for i := range reports {
		answers[i] = Shared{}
		var err error
		if keys[i], err = l.syncKey(reports[i].Path); err == nil {
			shapes[i], err = l.shapes.get(reports[i].Rate, reports[i].Ceil)
		}
		if answers[i].Err = err; err == nil {
			missing = append(missing, i)
		}
	}
	for _, withSource := range []bool{false, true} {
		if len(missing) == 0 {
			break
		}
		cmds := make([]*redis.StringCmd, len(missing))
		pipe := l.nodes.client.Pipeline()
		for i, at := range missing {
			args := l.opts.scripts.exchange.args(withSource, make([]any, 0, 7))
			args = append(args, "1", keys[at], e.id, e.report(&reports[at], shapes[at], l.epoch<<11+reports[at].Copy%(1<<11)))
			if e.now != 0 {
				args = append(args, strconv.FormatInt(e.now, 10))
			}
			cmds[i] = redis.NewStringCmd(ctx, args...)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
		_, _ = pipe.Exec(ctx) // each command has its error
		var again []int
		for i, at := range missing {
			reply, err := cmds[i].Result()
			switch {
			case err == nil:
				answers[at], err = shapes[at].shared(reply)
			case !withSource && redis.HasErrorPrefix(err, "NOSCRIPT"):
				again = append(again, at)
				continue
			case brokeDown(err) && l.nodes.first.lost != nil:
				l.nodes.first.lost()
			}
			answers[at].Err = err
		}
		missing = again
	}
	return firstError(ctx, reports, answers)
}

// firstError sums up what went wrong.
func firstError(ctx context.Context, reports []Report, answers []Shared) (err error) {
	failed := 0
	for i := range answers {
		if answers[i].Err == nil {
			continue
		}
		if failed++; failed == 1 {
			err = fmt.Errorf("class %q: %w", reports[i].Path, answers[i].Err)
		}
	}
	if failed == 0 {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return fmt.Errorf("redisgcra: %d of %d reports have no answer: %w", failed, len(reports), err)
}

// Leave tells that the gateway id is gone from the classes at paths, and from
// [Limiter.Heartbeat], before its TTLs are over. What it booked stays.
func (l *Limiter) Leave(ctx context.Context, id string, paths []string) error {
	if err := l.checkGateway(ctx, id, minTTL); err != nil {
		return err
	}
	pipe := l.nodes.client.Pipeline()
	for _, path := range paths {
		key, err := l.syncKey(path)
		if err != nil {
			return err
		}
		pipe.HDel(ctx, key, "gateway:"+id)
	}
	pipe.ZRem(ctx, l.gateways, id)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("redisgcra: %q leaves: %w", id, err)
	}
	return nil
}

// Heartbeat tells that the gateway id lives, and returns how many of the tree were heard
// of within their TTL, this one included: for trees without classes to exchange. Errors
// are as for [Limiter.Exchange], and it may be repeated too.
func (l *Limiter) Heartbeat(ctx context.Context, id string, ttl time.Duration) (gateways int, err error) {
	return l.heartbeat(ctx, exchange{id: id, ttl: ttl})
}

func (l *Limiter) heartbeat(ctx context.Context, e exchange) (gateways int, err error) {
	if err := l.checkGateway(ctx, e.id, e.ttl); err != nil {
		return 0, err
	}
	for _, withSource := range []bool{false, true} {
		args := l.opts.scripts.heartbeat.args(withSource, make([]any, 0, 7))
		args = append(args, "1", l.gateways, e.id, strconv.FormatInt(e.ttl.Microseconds(), 10))
		if e.now != 0 {
			args = append(args, strconv.FormatInt(e.now, 10))
		}
		cmd := redis.NewIntCmd(ctx, args...)
		_ = l.nodes.client.Process(ctx, cmd)
		var n int64
		if n, err = cmd.Result(); err == nil {
			return int(n), nil
		}
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			break
		}
	}
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return 0, fmt.Errorf("redisgcra: heartbeat: %w", err)
}

// syncKey returns the key of what the copies of the class at path share.
func (l *Limiter) syncKey(path string) (string, error) {
	key, err := Key(l.opts.Tree, path)
	return key + ":sync", err
}

func (l *Limiter) checkGateway(ctx context.Context, id string, ttl time.Duration) error {
	if err := checkName("gateway id", id, MaxName); err != nil {
		return err
	}
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("redisgcra: TTL %v of a gateway outside %v to %v", ttl, minTTL, maxTTL)
	}
	if l.nodes.isClosed() {
		return fmt.Errorf("redisgcra: %w", ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("redisgcra: %w", context.Cause(ctx))
	}
	return nil
}

// report returns r as the script reads it.
func (e *exchange) report(r *Report, s *shape, epoch uint64) []byte {
	packed := make([]byte, 0, 19*8)
	packed = s.rate.appendUse(packed, r.Used[0], r.Base[0])
	if s.two {
		packed = s.ceil.appendUse(packed, r.Used[1], r.Base[1])
	} else { // one that is always full
		packed = (&bucket{den: 1}).appendUse(packed, r.Used[1], r.Base[1])
	}
	packed = number(packed, uint64(e.ttl/time.Microsecond))
	return number(number(packed, epoch), e.number)
}

func (b *bucket) appendUse(to []byte, used, base int64) []byte {
	size := b.size.us
	if b.size.num > 0 {
		size++
	}
	to = number(number(to, size), b.unit/b.den)
	to = number(number(to, b.unit%b.den), b.den)
	return words(words(to, used), base)
}

// words appends n in two: how many 2^32 fit, and the rest.
func words(to []byte, n int64) []byte {
	return number(float(to, float64(n>>32)), uint64(uint32(n)))
}

func parseWords(from string) int64 {
	return int64(parseFloat(from))<<32 + int64(parse(from[8:]))
}

// shared reads an answer of the script.
func (s *shape) shared(reply string) (Shared, error) {
	if len(reply) != 9*8 {
		return Shared{}, fmt.Errorf("%d bytes where %d were due", len(reply), 9*8)
	}
	a := Shared{
		Owed:     [2]time.Duration{s.rate.nanoseconds(parse(reply), parse(reply[8:])), 0},
		Total:    [2]int64{parseWords(reply[32:]), parseWords(reply[48:])},
		Gateways: int(parse(reply[64:])),
	}
	if s.two {
		a.Owed[1] = s.ceil.nanoseconds(parse(reply[16:]), parse(reply[24:]))
	}
	return a, nil
}

// nanoseconds returns us and num/den microseconds, rounded up.
func (b *bucket) nanoseconds(us, num uint64) time.Duration {
	hi, lo := bits.Mul64(min(num, b.den), 1000)
	part, rest := bits.Div64(hi, lo, b.den)
	if rest > 0 {
		part++
	}
	return time.Duration(min(us, math.MaxInt64/1000-1))*time.Microsecond + time.Duration(part)
}
