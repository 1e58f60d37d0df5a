package redisgcra

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// ledger is the shared state of one class, in fractions of a microsecond.
type ledger struct {
	shape *shape
	ttl   int64
	tat   [2]*big.Rat
	total [2]int64
	known map[string]entry
	seen  int64
}

type entry struct {
	number uint64
	used   [2]int64
	over   int64
}

func (m *ledger) book(now int64, id string, number uint64, r Report) Shared {
	if back := m.seen - now; back > 0 {
		for i := range m.tat {
			m.tat[i].Sub(m.tat[i], big.NewRat(back, 1))
		}
		for id, k := range m.known {
			k.over -= back
			m.known[id] = k
		}
	}
	for id, k := range m.known {
		if k.over <= now {
			delete(m.known, id)
		}
	}
	base, late := r.Base, false
	if k, ok := m.known[id]; ok {
		base, late = k.used, k.number > number
	}
	if late {
		base = r.Used
	} else {
		m.known[id] = entry{number, r.Used, now + m.ttl}
	}
	m.seen = now
	a := Shared{Gateways: len(m.known)}
	instant := new(big.Rat).SetInt64(now)
	for i, b := range []bucket{m.shape.rate, m.shape.ceil} {
		size := int64(b.size.us)
		if b.size.num > 0 {
			size++
		}
		bound := big.NewRat(now+size+int64(len(m.known))*(size+2*m.ttl), 1)
		owed := most(instant, m.tat[i])
		bound = most(bound, owed) // a debt stays
		units := r.Used[i] - base[i]
		m.total[i] += units
		cost := new(big.Rat).SetFrac(new(big.Int).SetUint64(b.unit), new(big.Int).SetUint64(b.den))
		owed = least(bound, most(instant, cost.Add(cost.Mul(cost, big.NewRat(units, 1)), owed)))
		m.tat[i] = owed
		ns := new(big.Rat).Sub(owed, instant)
		ns.Mul(ns, big.NewRat(1000, 1))
		up := new(big.Int).Add(ns.Num(), ns.Denom())
		up.Sub(up, big.NewInt(1)).Quo(up, ns.Denom())
		a.Owed[i] = time.Duration(up.Int64())
	}
	a.Total = m.total
	return a
}

func most(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return new(big.Rat).Set(a)
	}
	return new(big.Rat).Set(b)
}

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return new(big.Rat).Set(a)
	}
	return new(big.Rat).Set(b)
}

// Gateways use, refund, report, and lose reports and answers; they send some twice, and
// some after later ones; time jumps, also back: what Redis keeps is what fractions say.
func TestExchangeIsExact(t *testing.T) {
	l, _ := start(t, Options{}, true)
	draw := rand.New(rand.NewPCG(21, 11))
	ctx := context.Background()
	const ttl = 3 * time.Second
	var late, lost, debts, refunds int
	for class := range 60 {
		rate, ceil := randomLimit(t, draw), randomLimit(t, draw)
		if class%3 == 0 { // fractions so long that they are multiplied bit by bit
			rate = Limit{algo.PerSecond(999_999_937), 5_000_000_000}
		}
		shape, err := l.shapes.get(rate, ceil)
		if err != nil {
			ceil = Limit{rate.Rate, rate.Burst + draw.Int64N(50)}
			shape, err = l.shapes.get(rate, ceil)
		}
		require.NoError(t, err)
		m := &ledger{shape: shape, ttl: ttl.Microseconds(), tat: [2]*big.Rat{{}, {}}, known: map[string]entry{}}
		type copyOf struct {
			id   string
			now  Report
			past []Report
		}
		copies := make([]*copyOf, 4)
		for i := range copies {
			copies[i] = &copyOf{id: fmt.Sprintf("gateway:%d\x00", i), now: Report{Path: fmt.Sprint(class), Rate: rate, Ceil: ceil}}
			if i == 0 { // beyond what a double holds
				copies[i].now.Used, copies[i].now.Base = [2]int64{1 << 61, -1 << 60}, [2]int64{1 << 61, -1 << 60}
			}
		}
		now := at(0)
		number := uint64(0)
		for range 200 {
			c := copies[draw.IntN(len(copies))]
			switch draw.IntN(20) {
			case 0:
				now += 4_000_000 * draw.Int64N(2)
			case 1:
				now -= draw.Int64N(1_000_000)
			default:
				now += draw.Int64N(200_000)
			}
			for i := range 2 {
				most := max(10, []Limit{rate, ceil}[i].Burst)
				units := draw.Int64N(most) - most/4
				if units < 0 {
					refunds++
				}
				c.now.Used[i] += units
			}
			c.past = append(c.past, c.now)
			number++
			r, n := c.now, number
			if draw.IntN(10) == 0 { // an earlier report, or the last once more
				i := len(c.past) - 1 - draw.IntN(min(5, len(c.past)))
				r, n = c.past[i], number-uint64(draw.IntN(8))
				late++
			}
			var answers [1]Shared
			require.NoError(t, l.exchange(ctx, exchange{id: c.id, ttl: ttl, number: n, now: now}, []Report{r}, answers[:]))
			require.Equal(t, m.book(now, c.id, n, r), answers[0], "class %d: %v at %d", class, rate, now)
			if answers[0].Owed[0] > rate.Rate.Takes(rate.Burst) {
				debts++
			}
			if draw.IntN(4) == 0 {
				lost++
			} else {
				c.now.Base = r.Used
			}
		}
	}
	t.Logf("%d late or twice, %d answers lost, %d in debt, %d refunds", late, lost, debts, refunds)
	for _, n := range []int{late, lost, debts, refunds} {
		require.Greater(t, n, 500)
	}
}

// teller is one gateway: it reports at a time that it is given, and hears the answer.
type teller struct {
	t  testing.TB
	l  *Limiter
	id string
	n  uint64
	Report
}

func (g *teller) tell(now algo.Time) Shared {
	g.n++
	var a [1]Shared
	require.NoError(g.t, g.l.exchange(context.Background(), exchange{id: g.id, ttl: time.Second, number: g.n, now: at(now)}, []Report{g.Report}, a[:]))
	g.Base = g.Used
	return a[0]
}

// Step by step: rate 1/s with burst 2, ceil 4/s with cburst 4, TTL 1 s.
func TestExchange(t *testing.T) {
	const second = algo.Time(time.Second)
	l, _ := start(t, Options{}, true)
	class := Report{Path: "free", Rate: Limit{algo.PerSecond(1), 2}, Ceil: Limit{algo.PerSecond(4), 4}}
	a, b := &teller{t, l, "a", 0, class}, &teller{t, l, "b", 0, class}
	owed := func(rate, ceil time.Duration) [2]time.Duration { return [2]time.Duration{rate, ceil} }

	a.Used = [2]int64{1, 2}
	require.Equal(t, Shared{Owed: owed(time.Second, time.Second/2), Total: [2]int64{1, 2}, Gateways: 1}, a.tell(0))
	b.Used = [2]int64{3, 6}
	require.Equal(t, Shared{Owed: owed(4*time.Second, 2*time.Second), Total: [2]int64{4, 8}, Gateways: 2}, b.tell(0), "a debt")
	require.Equal(t, Shared{Owed: owed(3500*time.Millisecond, 1500*time.Millisecond), Total: [2]int64{4, 8}, Gateways: 2}, a.tell(second/2), "only asks")
	require.Equal(t, 1, a.tell(second).Gateways, "b's TTL is over")
	a.Used = [2]int64{-9, 1} // refunds
	require.Equal(t, Shared{Owed: owed(0, 750*time.Millisecond), Total: [2]int64{-6, 7}, Gateways: 1}, a.tell(second))
	b.Used[0]++ // known no more: since its Base
	require.Equal(t, Shared{Owed: owed(time.Second, 0), Total: [2]int64{-5, 7}, Gateways: 2}, b.tell(2*second-1000))
	b.Used[0] += 1_000_000
	require.Equal(t, owed(2*time.Second+2*4*time.Second, 0), b.tell(2*second-1000).Owed, "the longest debt")

	require.NoError(t, l.Leave(context.Background(), "a", []string{"free", "other"}))
	require.Equal(t, 1, b.tell(2*second-1000).Gateways)

	// Another limiter by the same id does not carry on.
	fresh := &teller{t, l, "b", 0, class}
	fresh.Used = [2]int64{1, 1}
	l.epoch++
	require.Equal(t, [2]int64{999996, 8}, fresh.tell(2*second).Total)

	// A limit that changed: the time until full stays, rounded up, as a debt stays whoever
	// is heard of.
	fresh.Rate, fresh.Ceil = Limit{algo.PerSecond(7), 1}, Limit{}
	require.Equal(t, Shared{Owed: owed(2*time.Second+2*4*time.Second-time.Microsecond, 0), Total: [2]int64{999996, 8}, Gateways: 1}, fresh.tell(2*second))
	fresh.Used[0] += 1000
	require.Equal(t, owed(2*time.Second+2*4*time.Second-time.Microsecond, 0), fresh.tell(2*second).Owed, "nothing is added to it")
}

func TestExchangeRefuses(t *testing.T) {
	l, _ := start(t, Options{}, false)
	ctx := context.Background()
	good := []Report{{Path: "a", Rate: Limit{algo.PerSecond(1), 1}}}
	answers := make([]Shared, 1)
	require.ErrorContains(t, l.Exchange(ctx, "g", time.Second, good, nil), "0 answers for 1 reports")
	require.ErrorIs(t, l.Exchange(ctx, "", time.Second, good, answers), ErrName)
	require.ErrorContains(t, l.Exchange(ctx, "g", 0, good, answers), "TTL 0s")
	_, err := l.Heartbeat(ctx, "g", 10*maxTTL)
	require.ErrorContains(t, err, "TTL")
	require.ErrorIs(t, l.Leave(ctx, "g", []string{""}), ErrName)
	require.ErrorIs(t, l.Leave(ctx, strings.Repeat("g", 257), nil), ErrName)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, l.Exchange(ended, "g", time.Second, good, answers), context.Canceled)

	// A bad report spoils no other.
	reports := []Report{{Path: "", Rate: good[0].Rate}, {Path: "b"}, good[0]}
	answers = make([]Shared, 3)
	err = l.Exchange(ctx, "g", time.Second, reports, answers)
	require.ErrorContains(t, err, "2 of 3 reports")
	require.ErrorIs(t, err, ErrName)
	require.ErrorContains(t, answers[1].Err, "must be positive")
	require.Equal(t, Shared{Gateways: 1}, answers[2])

	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Exchange(ctx, "g", time.Second, good, answers[:1]), ErrClosed)
}

func TestHeartbeat(t *testing.T) {
	l, s := start(t, Options{Tree: "a:b"}, true)
	ctx := context.Background()
	beat := func(id string, now algo.Time) int {
		n, err := l.heartbeat(ctx, exchange{id: id, ttl: time.Second, now: at(now)})
		require.NoError(t, err)
		return n
	}
	const second = algo.Time(time.Second)
	require.Equal(t, 1, beat("x", 0))
	require.Equal(t, 2, beat("y", 500_000_000))
	require.Equal(t, 2, beat("x", second-1000))
	require.Equal(t, 2, beat("x", second+500_000_000-1000))
	require.Equal(t, 1, beat("x", second+500_000_000), "y's TTL is over")
	require.Equal(t, 2, beat("y", 2*second))
	require.NoError(t, l.Leave(ctx, "x", nil))
	require.Equal(t, 1, beat("y", 2*second))
	client := s.Connect(t, nil)
	require.Equal(t, []string{"htb:{a%3Ab}:gateways"}, client.Keys(ctx, "*").Val())
	require.NoError(t, client.Set(ctx, "htb:{a%3Ab}:gateways", "x", 0).Err())
	served, err := New(client, Options{Tree: "a:b"})
	require.NoError(t, err)
	_, err = served.Heartbeat(ctx, "x", time.Second)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NoError(t, client.FlushAll(ctx).Err())
	require.NoError(t, client.ScriptFlush(ctx).Err())
	for i, id := range []string{"x", "y", "x"} {
		n, err := served.Heartbeat(ctx, id, time.Second)
		require.NoError(t, err)
		require.Equal(t, min(i+1, 2), n)
	}
	require.InDelta(t, 2*time.Second, client.PTTL(ctx, "htb:{a%3Ab}:gateways").Val(), float64(500*time.Millisecond))
}
