package redisgcra

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/redistest"
)

// told is the scripts with TIME replaced by their last argument, for tests; and with ten
// minutes until a key expires, since Redis would count them by its own clock.
func told(t testing.TB) scripts {
	tell := func(s script, arg string) script {
		told := s.source
		for server, test := range map[string]string{
			"local time = call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n": "local now = tonumber(" + arg + ")\n",
			" / 1000) + 1000": " / 1000) + 600000",
		} {
			require.Equal(t, 1, strings.Count(told, server))
			told = strings.Replace(told, server, test, 1)
		}
		return newScript(told)
	}
	p := production
	return scripts{tell(p.gcra, "ARGV[2]"), tell(p.leaf, "ARGV[2]"), tell(p.exchange, "ARGV[3]"), tell(p.heartbeat, "ARGV[3]")}
}

// start returns a limiter on a server of its own; with clock its requests say the time.
func start(t testing.TB, opts Options, clock bool) (*Limiter, *redistest.Server) {
	s := redistest.Run(t)
	if clock {
		opts.scripts = told(t)
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Second // tests share the cores with the server
	}
	l, err := New(s.Connect(t, heedful), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, s
}

// heedful sets what New advises.
func heedful(o *redis.Options) { o.ContextTimeoutEnabled = true }

// at turns a test's time, in whole microseconds, into a server's: some day in 2026.
func at(now algo.Time) int64 { return 1_790_000_000_000_000 + int64(now)/1000 }

// clocked is one key of a limiter, with the time as an argument.
type clocked struct {
	limiter *Limiter
	key     string
	limit   Limit
}

func (c clocked) Allow(now algo.Time, cost int64) (algo.Verdict, error) {
	r, err := c.request(now, cost)
	if err != nil {
		return algo.Verdict{}, err
	}
	d, err := c.limiter.decide(context.Background(), r)
	return d.Verdict, err
}

func (c clocked) request(now algo.Time, cost int64) (request, error) {
	s, err := c.limiter.shapes.get(c.limit, Limit{})
	if err != nil {
		return request{}, err
	}
	key, err := Key(c.limiter.opts.Tree, c.key)
	return request{key: key, shape: s, ways: Own, cost: cost, now: at(now)}, err
}

func mustRate(t testing.TB, units int64, period time.Duration) algo.Rate {
	r, err := algo.NewRate(units, period)
	require.NoError(t, err)
	return r
}

// each runs do in n goroutines at once, and fails the test if one of them does.
func each(t testing.TB, n int, do func() error) {
	errs := make(chan error, n)
	for range n {
		go func() { errs <- do() }()
	}
	for range n {
		require.NoError(t, <-errs)
	}
}
