package redisgcra

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

// crowd asks a cluster all the time: callers decide on keys, and gateways exchange what
// they used of the classes of the same names, which are in the same slots.
type crowd struct {
	t       testing.TB
	limiter *Limiter
	limit   Limit // 1 a day, so only the burst counts
	names   []string
	passed  []atomic.Int64 // by name
	failed  []atomic.Int64
	last    []atomic.Int64 // when one failed, in nanoseconds
	faults  sync.Map       // errors, by their text
	used    [2]atomic.Int64
	stop    func()
}

const gateways = 2

func (c *crowd) start(phase string) {
	c.passed, c.failed, c.last = make([]atomic.Int64, len(c.names)), make([]atomic.Int64, len(c.names)), make([]atomic.Int64, len(c.names))
	c.faults.Clear()
	var wg sync.WaitGroup
	var over atomic.Bool
	ctx := context.Background()
	for range 6 {
		wg.Go(func() {
			for !over.Load() {
				i := rand.IntN(len(c.names))
				v, err := c.limiter.Allow(ctx, phase+c.names[i], c.limit, 1)
				switch {
				case err != nil:
					c.fail(i, err)
				case v.Allowed:
					c.passed[i].Add(1)
				}
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		})
	}
	for g := range gateways {
		wg.Go(func() {
			reports, answers := make([]Report, len(c.names)), make([]Shared, len(c.names))
			for i, name := range c.names {
				reports[i] = Report{Path: phase + name, Rate: c.limit}
			}
			exchange := func(patience time.Duration) error {
				soon, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				err := c.limiter.Exchange(soon, fmt.Sprint(phase, g), time.Minute, reports, answers)
				for i := range reports {
					if answers[i].Err == nil {
						reports[i].Base = reports[i].Used
					} else {
						c.fail(i, answers[i].Err)
					}
				}
				return err
			}
			for !over.Load() {
				for i := range reports {
					reports[i].Used[0] += int64(1 + i)
				}
				_ = exchange(500 * time.Millisecond)
				time.Sleep(3 * time.Millisecond)
			}
			if err := exchange(10 * time.Second); err != nil {
				c.t.Error(err)
			}
			c.used[g].Store(reports[0].Used[0])
		})
	}
	c.stop = func() {
		over.Store(true)
		wg.Wait()
	}
}

func (c *crowd) fail(i int, err error) {
	c.failed[i].Add(1)
	c.last[i].Store(time.Now().UnixNano())
	c.faults.LoadOrStore(err.Error(), true)
}

// check demands that of each key what passed and what remains is a burst, but for what
// failed, which may have been charged; lost says whose state may be lost.
func (c *crowd) check(phase string, lost func(i int) bool) {
	t, ctx := c.t, context.Background()
	c.faults.Range(func(fault, _ any) bool {
		require.NotContains(t, fault, "CROSSSLOT")
		return true
	})
	reports, answers := make([]Report, len(c.names)), make([]Shared, len(c.names))
	for i, name := range c.names {
		v, err := c.limiter.Allow(ctx, phase+name, c.limit, 0)
		require.NoError(t, err)
		sum, failed := c.passed[i].Load()+v.Remaining, c.failed[i].Load()
		require.GreaterOrEqual(t, sum, c.limit.Burst-failed, "%s: charged twice", name)
		most := c.limit.Burst
		if lost(i) {
			most *= 2
		}
		require.LessOrEqual(t, sum, most, "%s: too much passed", name)
		reports[i] = Report{Path: phase + name, Rate: c.limit}
	}
	require.NoError(t, c.limiter.Exchange(ctx, "reader", time.Minute, reports, answers))
	for i, a := range answers { // what was booked and of whom is one value, so even lost it fits
		require.Equal(t, int64(1+i)*(c.used[0].Load()+c.used[1].Load()), a.Total[0], c.names[i])
		require.Equal(t, gateways+1, a.Gateways)
	}
}

// A cluster under load, of which slots move, and a master dies.
func TestCluster(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.RunCluster(t, 3, 1)
	client := cluster.Connect(t, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled, o.DialerRetries = true, 1 })
	l, err := New(client, Options{Timeout: 2 * time.Second})
	require.NoError(t, err)
	defer l.Close()
	c := &crowd{t: t, limiter: l, limit: Limit{mustRate(t, 1, 24*time.Hour), 1}}
	for i := range 30 {
		c.names = append(c.names, fmt.Sprint("class", i))
	}
	key := func(phase string, i int) string {
		k, err := Key("default", phase+c.names[i])
		require.NoError(t, err)
		return k
	}
	for _, burst := range []int64{10, 30_000} { // used up soon, and never
		c.limit.Burst = burst
		phase := fmt.Sprint("moved", burst)
		c.start(phase)
		time.Sleep(100 * time.Millisecond)
		for i := range 5 {
			from, slot, err := cluster.Master(ctx, cluster.Nodes[0], key(phase, i))
			require.NoError(t, err)
			to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
			require.NoError(t, cluster.Migrate(ctx, slot, from, to, func() { time.Sleep(30 * time.Millisecond) }))
			n, err := to.Admin().Exists(ctx, key(phase, i), key(phase, i)+":sync").Result()
			require.NoError(t, err)
			require.EqualValues(t, 2, n, "it moved")
		}
		time.Sleep(100 * time.Millisecond)
		c.stop()
		c.check(phase, func(int) bool { return false })
		for i := range c.failed {
			require.Zero(t, c.failed[i].Load(), "a slot that moves fails nobody")
			require.GreaterOrEqual(t, c.passed[i].Load(), int64(10))
		}
	}

	c.limit.Burst = 100
	c.start("dead")
	time.Sleep(1500 * time.Millisecond) // keys reach the replicas
	dead := cluster.Nodes[1]
	of := make([]bool, len(c.names))
	some := 0
	for i := range c.names {
		master, _, err := cluster.Master(ctx, cluster.Nodes[0], key("dead", i))
		require.NoError(t, err)
		if of[i] = master == dead; of[i] {
			some++
		}
	}
	require.NotZero(t, some)
	killed := time.Now()
	require.NoError(t, dead.Kill())
	time.Sleep(4 * time.Second)
	c.stop()
	var longest time.Duration
	for i := range c.names {
		if !of[i] {
			require.Zero(t, c.failed[i].Load(), "%s has another master", c.names[i])
		} else if last := c.last[i].Load(); last > 0 {
			longest = max(longest, time.Unix(0, last).Sub(killed))
		}
	}
	c.faults.Range(func(fault, _ any) bool {
		t.Log(strings.Split(fmt.Sprint(fault), "\n")[0])
		return true
	})
	t.Logf("errors of the dead master's %d classes for %v", some, longest)
	require.NotZero(t, longest)
	require.Less(t, longest, 3*time.Second)
	c.check("dead", func(i int) bool { return of[i] })
}
