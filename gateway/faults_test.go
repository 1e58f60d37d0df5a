package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/gateway"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
	"github.com/go-sluice/sluice/internal/redistest/fault"
	"github.com/go-sluice/sluice/internal/redistest/trial"
)

// Each fault of Redis and of the way to it, with each outage policy: every decision comes,
// and in time; they follow the policy; none is sent twice; and it is soon over when the
// fault is. The program bench/faults reports how soon, and how long decisions take.
func TestFaults(t *testing.T) {
	redistest.Run(t) // or skip here
	before := runtime.NumGoroutine()
	latency := 50 * time.Millisecond
	set := trial.Trial{
		Timeout: 40 * time.Millisecond, // 20 of them are more than a busy machine was seen to take
		Sync:    100 * time.Millisecond,
		Callers: 8, Every: 20 * time.Millisecond,
		Before: 300 * time.Millisecond, For: 1200 * time.Millisecond, After: 300 * time.Millisecond,
	}
	t.Run("all", func(t *testing.T) {
		for _, which := range trial.Faults(latency) {
			t.Run(which(nil, nil).Name, func(t *testing.T) {
				t.Parallel()
				r, err := set.Run(context.Background(), which)
				require.NoError(t, err)
				assert.Zero(t, r.Repeats, "no decision is sent again that may have been made")
				slow := r.Fault.Name == fault.Slow(nil, 0).Name
				for _, run := range r.Runs {
					t.Run(run.OnOutage.String(), func(t *testing.T) {
						inTime(t, set, r, run)
						if r.Cuts() {
							without(t, r, run)
						}
						open, out := r.Noticed(run)
						asks, in := r.Recovered(run)
						t.Logf("noticed: %+v, sync %+v; recovered: %+v, sync %+v", open, out, asks, in)
						assert.True(t, open.Came || !r.Cuts() && !slow)
						assert.True(t, out.Came || !r.Cuts())
						// 2 intervals are what it takes on a machine with time to spare; with five busy
						// processes on two cores, and the race detector, 9 were seen.
						assert.True(t, asks.Came && asks.After < 30*set.Sync, "asks again after %+v", asks)
						assert.True(t, in.Came && in.After < 30*set.Sync, "exchanges again after %+v", in)
					})
				}
			})
		}
	})
	for i := 0; runtime.NumGoroutine() > before; i++ { // not Eventually, which has goroutines of its own
		require.Less(t, i, 5000)
		time.Sleep(time.Millisecond)
	}
}

// inTime: what holds with every fault.
func inTime(t *testing.T, set trial.Trial, r *trial.Result, run *trial.Run) {
	assert.Empty(t, run.Errs)
	assert.Equal(t, run.Asked, run.Answered)
	assert.Len(t, run.Samples, int(run.Asked))
	longest, own, last := time.Duration(0), 0., time.Duration(0)
	for _, s := range run.Samples {
		longest, last = max(longest, s.Took), max(last, s.End())
		if s.Kind == trial.Own {
			assert.False(t, s.Outage)
			own += units(s)
		}
	}
	took := trial.Latencies(r.Affected(run), trial.Stored)
	t.Logf("%d decisions, the longest %v; of those on store: redis while it lasted p50 %v, p99 %v", run.Asked, longest,
		trial.Quantile(took, .5), trial.Quantile(took, .99))
	assert.Less(t, longest, 20*set.Timeout)
	all := trial.Burst + trial.Rate*last.Seconds()
	assert.LessOrEqual(t, own, all, "what needs no Redis")
	assert.GreaterOrEqual(t, own, .7*all, "what needs no Redis")
}

// units returns what s was admitted of its limit.
func units(s trial.Sample) float64 {
	if !s.Allowed {
		return 0
	}
	return float64(s.Cost) / trial.Unit
}

// without: decisions while Redis can admit nothing.
func without(t *testing.T, r *trial.Result, run *trial.Run) {
	from := r.End // when the policy holds for sync
	for _, s := range run.States {
		if s.Out && s.At > r.Begin {
			from = max(s.At, r.Began)
			break
		}
	}
	asked, got := [2]int{}, [2]float64{}
	for _, s := range r.During(run) {
		switch {
		case s.Kind == trial.Stored:
			assert.True(t, s.Outage || !s.Allowed, "nothing is admitted by a Redis that is not there: %+v", s)
		case s.Kind == trial.Own || s.At < from:
			continue
		}
		if s.Kind == trial.Shared || s.Outage {
			asked[s.Kind]++
			got[s.Kind] += units(s)
			if run.OnOutage == htb.Open {
				assert.True(t, s.Allowed, "%+v", s)
			}
		}
	}
	for kind, length := range []float64{(r.End - r.Began).Seconds(), (r.End - from).Seconds()} {
		switch what := fmt.Sprintf("%v of %d asked for in %v s, kind %d", got[kind], asked[kind], length, kind); run.OnOutage {
		case htb.Closed:
			assert.Zero(t, got[kind], what)
		case htb.Local:
			// An equal part; the last request may be more than is left of it. Of a leaf in Redis
			// the burst is shared out as well, a copy may begin with a full one.
			most := trial.Rate * length / trial.Gateways
			assert.LessOrEqual(t, got[kind], most+[]float64{trial.Burst / trial.Gateways, trial.Burst}[kind]+2, what)
			if asked[kind] > 20 {
				assert.Greater(t, got[kind], (trial.Rate*length)/trial.Gateways/2-2, what)
			}
		}
	}
}

// A long outage takes no more memory, and no more goroutines, than a short one.
func TestAnOutageIsFlat(t *testing.T) {
	s := redistest.Run(t)
	path := filepath.Join(t.TempDir(), "tree.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
tree: flat
redis: {addr: %s, timeout: 5ms}
global:
  rate: 1000000/s
  sync: 50ms
  children:
    "*": {rate: 1000/s, store: redis}
`, s.Socket), 0o600))
	ctx := context.Background()
	g, err := gateway.Load(ctx, path, gateway.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	defer g.Close(ctx)
	for _, f := range []fault.Fault{fault.Pause(s), fault.Crash(s)} {
		require.NoError(t, f.Begin(ctx))
		over := make(chan struct{})
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						_, err := g.Allow(ctx, 1, fmt.Sprint("client", i))
						assert.NoError(t, err)
					}
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		heap, goroutines := used()
		time.Sleep(1500 * time.Millisecond)
		heapLater, goroutinesLater := used()
		require.NoError(t, f.End(ctx))
		require.Eventually(t, func() bool { return !g.Stats().Open && !g.Stats().Out }, 5*time.Second, time.Millisecond)
		close(over)
		callers.Wait()
		t.Logf("%s: %d bytes and %d goroutines more after 1.5 s", f.Name, heapLater-heap, goroutinesLater-goroutines)
		assert.Less(t, heapLater-heap, int64(1<<20))
		assert.Less(t, goroutinesLater-goroutines, 10)
	}
}

func used() (heap int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}
