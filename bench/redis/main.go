// Redis measures decisions by GCRA limiters that keep their state in Redis: Sluice's
// redisgcra, github.com/go-redis/redis_rate and github.com/throttled/throttled, on a
// server of its own. Rounds alternate between them, and medians are shown.
//
//	go run ./redis -d 1s -rounds 5
//
// The CPU time that a decision takes, of this process and of Redis, says more than
// decisions a second where others use the machine too. A plain GET is the yardstick: no
// limiter that asks once for each decision can be faster.
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
	"strings"
	"sync"
	"syscall"
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
	goroutines := flag.String("goroutines", "1,8,64,256", "how many ask at once")
	keys := flag.String("keys", "1,10000", "how many keys they ask for")
	flag.Parse()
	loads, err := parseLoads(*keys, *goroutines)
	if err == nil {
		err = run(os.Stdout, *d, *rounds, *only, loads, redisgcra.Options{MaxBatch: *batch, Flights: *flights, Timeout: time.Second})
	}
	if err != nil {
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
		{"plain GET", func(c *redis.Client) (allow, func() error, error) {
			return func(ctx context.Context, key string) error {
				if err := c.Get(ctx, key).Err(); err != redis.Nil {
					return err
				}
				return nil
			}, func() error { return nil }, nil
		}},
	}
}

// load is one row of the table.
type load struct{ keys, goroutines int }

func parseLoads(keys, goroutines string) (loads []load, err error) {
	for k := range strings.SplitSeq(keys, ",") {
		for g := range strings.SplitSeq(goroutines, ",") {
			var l load
			if l.keys, err = strconv.Atoi(k); err != nil {
				return nil, err
			}
			if l.goroutines, err = strconv.Atoi(g); err != nil {
				return nil, err
			}
			loads = append(loads, l)
		}
	}
	return loads, nil
}

// result is one measurement.
type result struct {
	perSecond float64 // decisions, errors not counted
	p50, p99  time.Duration
	errors    float64       // a share of all calls
	client    time.Duration // of CPU time for each decision
	server    time.Duration
}

func run(w io.Writer, d time.Duration, rounds int, only string, loads []load, opts redisgcra.Options) (err error) {
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, server.Close()) }()
	all := slices.DeleteFunc(contenders(opts), func(c contender) bool { return only != "" && c.name != only })
	fmt.Fprintf(w, "%s, GOMAXPROCS %d, Redis on the same machine, by Unix socket; medians of %d rounds of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), rounds, d)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "keys\tgoroutines\tlimiter\tdecisions/s\tp50 us\tp99 us\tCPU us\tRedis CPU us\terrors %\tfirst is faster by\t")
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
			fmt.Fprintf(table, "%d\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.2f\t\n", l.keys, l.goroutines, c.name, rate,
				median(results[i], func(r result) float64 { return float64(r.p50) / 1e3 }),
				median(results[i], func(r result) float64 { return float64(r.p99) / 1e3 }),
				median(results[i], func(r result) float64 { return float64(r.client) / 1e3 }),
				median(results[i], func(r result) float64 { return float64(r.server) / 1e3 }),
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
	used, err := usage(ctx, client)
	if err != nil {
		return r, err
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
	now, err := usage(ctx, client)
	all := time.Duration(float64(len(sorted)) * 1.1) // the warming up was used too
	r.client, r.server = (now[0]-used[0])/all, (now[1]-used[1])/all
	r.p50, r.p99 = sorted[len(sorted)/2], sorted[len(sorted)*99/100]
	return r, err
}

// usage returns the CPU time that this process and Redis have used.
func usage(ctx context.Context, client *redis.Client) (used [2]time.Duration, err error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return used, err
	}
	used[0] = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	info, err := client.Info(ctx, "cpu").Result()
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, parseErr := strconv.ParseFloat(value, 64)
			used[1] += time.Duration(seconds * float64(time.Second))
			err = cmp.Or(err, parseErr)
		}
	}
	return used, err
}

func median(of []result, value func(result) float64) float64 {
	values := make([]float64, len(of))
	for i, r := range of {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
