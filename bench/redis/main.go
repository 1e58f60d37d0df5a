// Redis measures decisions by GCRA limiters that keep their state in Redis: Sluice's
// redisgcra, github.com/go-redis/redis_rate and github.com/throttled/throttled, on a
// server of its own. Rounds alternate between them, and medians are shown.
//
//	go run ./redis -d 1s -rounds 5
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/internal/redistest"
)

// A rate at which some requests are refused on the hot key, and none elsewhere: a
// refusal is cheaper, as it writes nothing.
const (
	perSecond = 1_000_000
	burst     = 1_000_000
)

// allow decides on one request of cost 1.
type allow func(ctx context.Context, key string) error

// contender is a limiter that is measured; make returns it and how it ends.
type contender struct {
	name string
	make func(*redis.Client) (allow, func() error, error)
}

func main() {
	d := flag.Duration("d", time.Second, "how long each measurement takes")
	rounds := flag.Int("rounds", 5, "how often each is taken; medians are shown")
	batch := flag.Int("batch", 0, "MaxBatch of redisgcra, 0: its default")
	flights := flag.Int("flights", 0, "Flights of redisgcra, 0: its default")
	only := flag.String("only", "", "measure this contender alone")
	flag.Parse()
	if err := run(os.Stdout, *d, *rounds, *only, redisgcra.Options{MaxBatch: *batch, Flights: *flights, Timeout: time.Second}); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func contenders(opts redisgcra.Options) []contender {
	return []contender{
		{"redisgcra", func(c *redis.Client) (allow, func() error, error) {
			l, err := redisgcra.New(c, opts)
			if err != nil {
				return nil, nil, err
			}
			limit := redisgcra.Limit{Rate: algo.PerSecond(perSecond), Burst: burst}
			return func(ctx context.Context, key string) error {
				_, err := l.Allow(ctx, key, limit, 1)
				return err
			}, l.Close, nil
		}},
		{"redis_rate", func(c *redis.Client) (allow, func() error, error) {
			l := redis_rate.NewLimiter(c)
			limit := redis_rate.Limit{Rate: perSecond, Burst: burst, Period: time.Second}
			return func(ctx context.Context, key string) error {
				_, err := l.Allow(ctx, key, limit)
				return err
			}, func() error { return nil }, nil
		}},
		{"throttled", func(c *redis.Client) (allow, func() error, error) {
			store, err := goredisstore.NewCtx(c, "")
			if err != nil {
				return nil, nil, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: burst})
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context, key string) error {
				_, _, err := l.RateLimitCtx(ctx, key, 1)
				return err
			}, func() error { return nil }, nil
		}},
	}
}

// load is one row of the table.
type load struct{ keys, goroutines int }

// result is one measurement.
type result struct {
	perSecond float64 // decisions, errors not counted
	p50, p99  time.Duration
	errors    float64 // a share of all calls
}

func run(w io.Writer, d time.Duration, rounds int, only string, opts redisgcra.Options) (err error) {
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, server.Close()) }()
	all := slices.DeleteFunc(contenders(opts), func(c contender) bool { return only != "" && c.name != only })
	var loads []load
	for _, keys := range []int{1, 10_000} {
		for _, goroutines := range []int{1, 8, 64, 256} {
			loads = append(loads, load{keys, goroutines})
		}
	}
	fmt.Fprintf(w, "%s, GOMAXPROCS %d, Redis on the same machine, by Unix socket; medians of %d rounds of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), rounds, d)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "keys\tgoroutines\tlimiter\tdecisions/s\tp50 us\tp99 us\terrors %\tfirst is faster by\t")
	for _, l := range loads {
		results := make([][]result, len(all))
		for range rounds {
			for i, c := range all {
				r, err := measure(server, c, l, d)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				results[i] = append(results[i], r)
			}
		}
		var first float64
		for i, c := range all {
			rate := median(results[i], func(r result) float64 { return r.perSecond })
			if i == 0 {
				first = rate
			}
			fmt.Fprintf(table, "%d\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.1f\t%.2f\t\n", l.keys, l.goroutines, c.name, rate,
				median(results[i], func(r result) float64 { return float64(r.p50) / 1e3 }),
				median(results[i], func(r result) float64 { return float64(r.p99) / 1e3 }),
				median(results[i], func(r result) float64 { return 100 * r.errors }), first/rate)
		}
	}
	return table.Flush()
}

// measure lets goroutines decide for d, after a tenth of it to warm up.
func measure(server *redistest.Server, c contender, l load, d time.Duration) (r result, err error) {
	client := server.Client(func(o *redis.Options) { o.PoolSize, o.ContextTimeoutEnabled = max(10, l.goroutines), true }) // each its own: no queue for connections
	defer func() { err = cmp.Or(err, client.Close()) }()
	ctx := context.Background()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return r, err
	}
	decide, end, err := c.make(client)
	if err != nil {
		return r, err
	}
	defer func() { err = cmp.Or(err, end()) }()
	keys := make([]string, l.keys)
	for i := range keys {
		keys[i] = "key" + strconv.Itoa(i)
	}
	times := make([][]time.Duration, l.goroutines)
	failed := make([]int, l.goroutines)
	begin := time.Now().Add(d / 10)
	var wg sync.WaitGroup
	for g := range l.goroutines {
		wg.Go(func() {
			for i := g * 7919; ; i += 104_729 { // primes: all keys, in no order
				start := time.Now()
				err := decide(ctx, keys[i%len(keys)])
				now := time.Now()
				switch {
				case now.Sub(begin) > d:
					return
				case start.Before(begin):
				case err != nil:
					failed[g]++
				default:
					times[g] = append(times[g], now.Sub(start))
				}
			}
		})
	}
	wg.Wait()
	sorted := slices.Concat(times...)
	if len(sorted) == 0 {
		return r, decide(ctx, keys[0])
	}
	slices.Sort(sorted)
	for _, n := range failed {
		r.errors += float64(n)
	}
	r.errors /= r.errors + float64(len(sorted))
	r.perSecond = float64(len(sorted)) / d.Seconds()
	r.p50, r.p99 = sorted[len(sorted)/2], sorted[len(sorted)*99/100]
	return r, nil
}

func median(of []result, value func(result) float64) float64 {
	values := make([]float64, len(of))
	for i, r := range of {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
