package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

// flatGroups are figure 1: a decision of a tree of three levels, by handle, beside one
// flat decision of each peer, and beside three limiters one above the other.
func flatGroups() []group {
	cols := []string{"ns", "wall ns", "allocs", "B"}
	allowed := func(name string) contender { return ours(name, own, 1) }
	return []group{
		{
			figure: "1", name: "allowed", title: "Three levels, allowed, by handle, one core", cores: 1,
			columns: cols, first: "ns", ours: "sluice", turns: 5,
			contenders: append([]contender{
				allowed("sluice"), allowed("sluice" + why), ours("sluice, borrowed", borrowed, 1),
				ours("sluice, borrowed"+why, borrowed, 1), ours("sluice, leased", leased, 1), allowed("sluice" + bySystem),
			}, peers(true, 1)...),
			targets: []target{
				{what: "allowed, of one x/time Allow", of: "sluice", column: "ns", than: []string{"x/time"}, most: 0.65, aim: 0.5},
				{what: "borrowed from the root, of one x/time Allow", of: "sluice, borrowed", column: "ns", than: []string{"x/time"}, most: 0.75},
				{what: "leased, of one x/time Allow", of: "sluice, leased", column: "ns", than: []string{"x/time"}, most: 0.4},
				{what: "allocations of a leased decision", of: "sluice, leased", column: "allocs"},
			},
		}, {
			figure: "1", name: "refused", title: "Three levels, refused, by handle, one core", cores: 1,
			columns: cols, first: "ns", ours: "sluice, by its ceil", turns: 5,
			contenders: append([]contender{
				ours("sluice, by its ceil", atCeil, 1), ours("sluice, by its ceil"+why, atCeil, 1),
				ours("sluice, by the root", atRoot, 1), xtime(true),
			}, peers(false, 1)...),
			targets: []target{
				{what: "refused by its ceil, of one x/time Allow that passes", of: "sluice, by its ceil", column: "ns", than: []string{"x/time, allowed"}, most: 0.4},
				{what: "refused by the root, of one x/time Allow that passes", of: "sluice, by the root", column: "ns", than: []string{"x/time, allowed"}, most: 0.4},
			},
		}, {
			figure: "1", name: "two", title: "Three levels, allowed, by handle, two cores: different leaves under one root, beside one limiter shared", cores: 2,
			columns: []string{"ns", "CPU ns", "allocs", "B"}, first: "ns", ours: "sluice", turns: 5,
			contenders: append([]contender{
				ours("sluice", own, 2), ours("sluice, leased", leased, 2), ours("sluice, one leaf leased", leasedOne, 2),
				ours("sluice, one leaf leased, 64 goroutines", leasedOne, 64), ours("sluice, leased, one goroutine", leased, 1),
			}, peers(true, 2)...),
			targets: []target{
				{what: "two cores, of x/time shared by two", of: "sluice", column: "ns", than: []string{"x/time"}, most: 0.65},
				{what: "leased, two leaves by two cores, of one by one", of: "sluice, leased", column: "ns", than: []string{"sluice, leased, one goroutine"}, most: 1},
				{what: "leased, one leaf by two cores, of one by one", of: "sluice, one leaf leased", column: "ns", than: []string{"sluice, leased, one goroutine"}, most: 1},
				{what: "leased, one leaf by 64 goroutines, of one by one", of: "sluice, one leaf leased, 64 goroutines", column: "ns", than: []string{"sluice, leased, one goroutine"}, most: 1},
			},
		},
	}
}

// setting is what happens to a request.
type setting int

const (
	own       setting = iota // its leaf's guarantee pays
	borrowed                 // the root lends
	atCeil                   // its leaf is at its ceil
	atRoot                   // the root has nothing to lend
	leased                   // its leaf's guarantee pays, for several in advance
	leasedOne                // the same, all goroutines on one leaf
)

// why is at the end of the name of a row of decisions that say who lends or refuses, and
// when to come back. All others say yes or no, as x/time does.
const why = ", and why"

// bySystem is at the end of the name of a row that reads the system's clock, which is what
// Now does where Linux does not tell the time by the processor's counter.
const bySystem = ", the system's clock"

// ours decides on the clients of the tree of plant: as many as there are goroutines.
func ours(name string, s setting, goroutines int) contender {
	return contender{name, func(options) (trial, error) {
		tree, err := plant(s, goroutines)
		if err != nil {
			return trial{}, err
		}
		if s == leased || s == leasedOne {
			loops, err := inAdvance(tree, s, goroutines)
			t := timed(true, loops...)
			t.check = func() error { return checkOurs(tree, tenant(0), own) }
			return t, err
		}
		loops := make([]loop, goroutines)
		for i := range loops {
			leaf, err := tree.Leaf(tenant(i), "client")
			if err != nil {
				return trial{}, err
			}
			if s == atCeil || s == atRoot { // what there is at first
				for d := (htb.Decision{Allowed: true}); d.Allowed; {
					if d, err = leaf.Allow(sluice.Now(), 1); err != nil {
						return trial{}, err
					}
				}
			}
			loops[i] = each(func() bool { return leaf.Take(sluice.Now(), 1) })
			switch {
			case strings.HasSuffix(name, why):
				loops[i] = each(func() bool { d, _ := leaf.Allow(sluice.Now(), 1); return d.Allowed })
			case strings.HasSuffix(name, bySystem):
				start := time.Now()
				loops[i] = each(func() bool { return leaf.Take(htb.Time(time.Since(start)), 1) })
			}
		}
		t := timed(s == own || s == borrowed, loops...)
		t.check = func() error { return checkOurs(tree, tenant(0), s) }
		return t, nil
	}}
}

// plant returns the tree global, tenant, client, with a client below each tenant, and a
// tenant for each goroutine that has a leaf of its own.
func plant(s setting, goroutines int) (*htb.Tree, error) {
	fast, slow := algo.PerSecond(rig.Fast), rig.Hardly()
	root := rig.Class("", fast, algo.Rate{})
	if s == leasedOne {
		goroutines = 1
	}
	for i := range goroutines {
		client := rig.Class("client", algo.PerSecond(rig.Fast/10), fast)
		above := rig.Class(tenant(i), algo.PerSecond(rig.Fast/3), fast)
		if s == borrowed || s == atCeil || s == atRoot {
			client.Rate, above.Rate = slow, slow
			above.Oversubscribed = true // two clients of the rate that it has itself
		}
		if s == atCeil {
			client.Ceil = slow
		}
		other := client
		other.Name = "other"
		above.Children = []htb.Spec{client, other}
		root.Children = append(root.Children, above)
	}
	if s == atRoot {
		root.Rate, root.Ceil = slow, fast
		root.Oversubscribed = true
	}
	return htb.New(root)
}

func tenant(i int) string { return fmt.Sprint("tenant", i) }

// inAdvance decides by handles that take units in advance.
func inAdvance(tree *htb.Tree, s setting, goroutines int) (loops []loop, err error) {
	var leaf *htb.Leased
	for i := range goroutines {
		if i == 0 || s == leased {
			plain, err := tree.Leaf(tenant(i), "client")
			if err != nil {
				return nil, err
			}
			if leaf, err = plain.Leased(htb.Lease{}); err != nil {
				return nil, err
			}
		}
		mine := leaf
		loops = append(loops, each(func() bool { return mine.Take(sluice.Now(), 1) }))
	}
	return loops, nil
}

// few is how many requests may have gone another way, at first.
const few = 10

func checkOurs(tree *htb.Tree, tenant string, s setting) error {
	root, leaf := rig.Row(tree, sluice.Now(), htb.RootPath), rig.Row(tree, sluice.Now(), htb.Path(tenant, "client"))
	var ok bool
	switch s {
	case own:
		ok = root.Rejected == 0 && leaf.Own > 1000 && leaf.Borrows == 0
	case borrowed:
		ok = root.Rejected == 0 && root.Lends > 1000 && root.Lends >= root.Gets-few
	default:
		ok = root.Rejected > 1000 && root.Gets <= few
		d, err := rig.Must(tree.Leaf(tenant, "client")).Allow(sluice.Now(), 1)
		if want := map[setting]string{atCeil: htb.Path(tenant, "client"), atRoot: htb.RootPath}[s]; err != nil || d.RefusedBy() != want {
			return fmt.Errorf("refused by %q, not %q: %v", d.RefusedBy(), want, d.Reason)
		}
	}
	if !ok {
		return fmt.Errorf("not what was to be measured: root %+v, leaf %+v", root, leaf)
	}
	return nil
}

func xtime(allowed bool) contender {
	return contender{"x/time, allowed", func(options) (trial, error) { return timed(allowed, share(1, allow(allowed))...), nil }}
}

func allow(allowed bool) loop {
	l := rate.NewLimiter(rate.Limit(rig.Fast), rig.Fast)
	if !allowed {
		l = rate.NewLimiter(rate.Every(24*time.Hour), 1)
		l.Allow()
	}
	return func(n int) (allowed int) {
		for range n {
			if l.Allow() {
				allowed++
			}
		}
		return allowed
	}
}

func share(goroutines int, l loop) (all []loop) {
	for range goroutines {
		all = append(all, l)
	}
	return all
}

// each returns n calls of decide in a loop.
func each(decide func() bool) loop {
	return func(n int) (allowed int) {
		for range n {
			if decide() {
				allowed++
			}
		}
		return allowed
	}
}

// peers return the flat limiters, of which everything passes, or nothing after the first
// request, shared by goroutines.
func peers(allowed bool, goroutines int) []contender {
	units, period := rig.Fast, time.Second
	if !allowed {
		units, period = 1, 24*time.Hour
	}
	ctx := context.Background()
	all := []struct {
		name string
		make func() (loop, error)
	}{
		{"x/time", func() (loop, error) { return allow(allowed), nil }},
		{"x/time, 3 with reserve and cancel", func() (loop, error) { return three(allowed), nil }},
		{"throttled", func() (loop, error) {
			store, err := memstore.NewCtx(0)
			if err != nil {
				return nil, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(units, period), MaxBurst: units - 1})
			if err != nil {
				return nil, err
			}
			l.SetMaxCASAttemptsLimit(math.MaxInt) // or some fail, where cores meet
			return each(func() bool { limited, _, err := l.RateLimitCtx(ctx, "client", 1); return err == nil && !limited }), nil
		}},
		{"go-limiter", func() (loop, error) {
			// It has a new amount each interval, of a size that is off for large ones: so one
			// interval that lasts, with all that is needed.
			tokens := map[bool]uint64{true: 1 << 50, false: 1}[allowed]
			s, err := memorystore.New(&memorystore.Config{Tokens: tokens, Interval: 24 * time.Hour})
			return each(func() bool { _, _, _, ok, err := s.Take(ctx, "client"); return err == nil && ok }), err
		}},
		{"juju", func() (loop, error) {
			b := ratelimit.NewBucketWithRate(rig.Fast, rig.Fast)
			if !allowed {
				b = ratelimit.NewBucket(period, 1)
			}
			return each(func() bool { return b.TakeAvailable(1) > 0 }), nil
		}},
		{"failsafe-go, smooth", func() (loop, error) {
			l := ratelimiter.NewSmooth[any](uint(units), period)
			return each(l.TryAcquirePermit), nil
		}},
		{"failsafe-go, bursty", func() (loop, error) {
			l := ratelimiter.NewBursty[any](uint(units), period)
			return each(l.TryAcquirePermit), nil
		}},
		{"ulule", func() (loop, error) {
			l := limiter.New(memory.NewStore(), limiter.Rate{Period: 24 * time.Hour, Limit: map[bool]int64{true: 1 << 50, false: 1}[allowed]})
			return each(func() bool { c, err := l.Get(ctx, "client"); return err == nil && !c.Reached }), nil
		}},
		{"uber", func() (loop, error) {
			l := uber.New(units)
			return each(func() bool { l.Take(); return true }), nil
		}},
	}
	if !allowed {
		all = all[:len(all)-1] // it waits, and refuses nothing
	}
	var out []contender
	for _, p := range all {
		out = append(out, contender{p.name, func(options) (trial, error) {
			l, err := p.make()
			if err != nil {
				return trial{}, err
			}
			if !allowed {
				l(1)
			}
			t := timed(allowed, share(goroutines, l)...)
			t.check = func() error { runtime.KeepAlive(l); return nil }
			return t, nil
		}})
	}
	return out
}

// three returns three limiters one above the other, as is done by hand: a reservation of
// each, all cancelled where one has to wait. CancelAt with the instant of the reservation,
// since Cancel gives nothing back of one that may be used at once.
func three(allowed bool) loop {
	fast := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(rig.Fast), rig.Fast) }
	limits := [3]*rate.Limiter{fast(), fast(), fast()}
	if !allowed {
		limits[2] = rate.NewLimiter(rate.Every(24*time.Hour), 1) // the root
	}
	return each(func() bool {
		now := time.Now()
		var made [3]*rate.Reservation
		for i, l := range limits {
			made[i] = l.ReserveN(now, 1)
			if !made[i].OK() || made[i].DelayFrom(now) > 0 {
				for _, r := range made[:i+1] {
					r.CancelAt(now)
				}
				return false
			}
		}
		return true
	})
}
