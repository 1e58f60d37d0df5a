package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

func class(name string, rate, ceil int64, children ...htb.Spec) htb.Spec {
	return htb.Spec{Name: name, Rate: algo.PerSecond(rate), Ceil: algo.PerSecond(ceil), Children: children}
}

// leaky has a root that lets go of one at a time, evenly spaced.
func leaky(rate int64, children ...htb.Spec) htb.Spec {
	s := class("", rate, rate, children...)
	s.Burst, s.CBurst = 1, 1
	return s
}

func mustShaper(t testing.TB, root htb.Spec, o sluice.ShaperOptions) *sluice.Shaper {
	s, err := sluice.NewShaper(root, o)
	require.NoError(t, err)
	return s
}

func TestShaperPacesExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustShaper(t, leaky(1000, class("a", 500, 1000), class("b", 500, 1000)), sluice.ShaperOptions{})
		defer s.Close()
		start := time.Now()
		var mu sync.Mutex
		var released []time.Duration
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				_, err := s.Wait(t.Context(), 1, []string{"a", "b"}[i%2])
				if err != nil {
					panic(err)
				}
				mu.Lock()
				released = append(released, time.Since(start))
				mu.Unlock()
			})
		}
		wg.Wait()
		require.Len(t, released, 200)
		for i, at := range released {
			require.Equal(t, time.Duration(i)*time.Millisecond, at, "virtual time is exact")
		}
		for _, q := range s.Stats().Queues[1:] {
			require.Equal(t, int64(100), q.Released)
			require.Zero(t, q.Len)
		}
	})
}

func TestShaperDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := class("a", 10, 10)
		a.Burst, a.CBurst = 1, 1
		s := mustShaper(t, leaky(20, a, class("b", 5, 20)), sluice.ShaperOptions{})
		defer s.Close()
		_, err := s.Wait(t.Context(), 1, "a")
		require.NoError(t, err)

		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no more"))
		_, err = s.Wait(cancelled, 1, "a")
		require.EqualError(t, err, "no more")

		start := time.Now()
		short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		_, err = s.Wait(short, 1, "a") // 100 ms to the next: no use waiting
		require.ErrorIs(t, err, sluice.ErrTooLate)
		require.Zero(t, time.Since(start))

		var wg sync.WaitGroup // b keeps the root busy: a gives up exactly at its deadline
		for range 5 {
			wg.Go(func() { _, _ = s.Wait(t.Context(), 1, "b") })
		}
		synctest.Wait()
		start = time.Now()
		long, stop := context.WithTimeout(t.Context(), 75*time.Millisecond)
		defer stop()
		_, err = s.Wait(long, 1, "b")
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 75*time.Millisecond)
		wg.Wait()
		drops := map[string]int64{}
		for _, q := range s.Stats().Queues[1:] {
			for why, n := range q.Dropped {
				drops[htb.Drop(why).String()] += n
			}
		}
		require.Equal(t, int64(2), drops["deadline"])
	})
}

// A request that its deadline catches in the queue gives up at that instant.
func TestShaperGivesUpAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustShaper(t, leaky(10, class("a", 1, 10), class("b", 9, 10)), sluice.ShaperOptions{})
		defer s.Close()
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() { _, _ = s.Wait(t.Context(), 1, "b") })
		}
		synctest.Wait()
		_, err := s.Wait(t.Context(), 1, "a") // what a had saved
		require.NoError(t, err)
		start := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 333*time.Millisecond)
		defer stop()
		_, err = s.Wait(ctx, 1, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 333*time.Millisecond, time.Since(start))
		wg.Wait()
	})
}

func TestShaperMaxWaitAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := class("a", 1, 1)
		a.Burst, a.CBurst, a.MaxWait, a.Limit = 1, 1, 1500*time.Millisecond, 3
		s := mustShaper(t, class("", 100, 100, a), sluice.ShaperOptions{})
		defer s.Close()
		var released, late, full atomic.Int64
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				switch _, err := s.Wait(t.Context(), 1, "a"); {
				case err == nil:
					released.Add(1)
				case errors.Is(err, sluice.ErrMaxWait):
					late.Add(1)
				case errors.Is(err, htb.ErrFull):
					full.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, [3]int64{2, 2, 2}, [3]int64{released.Load(), late.Load(), full.Load()})
	})
}

func TestShaperPoolIsNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustShaper(t, class("", 1_000_000, 1_000_000, class("a", 300_000, 1_000_000), class("b", 100_000, 1_000_000)), sluice.ShaperOptions{Pool: 8})
		defer s.Close()
		var busy, most atomic.Int64
		var got [2]atomic.Int64
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var wg sync.WaitGroup
		for g := range 60 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for ctx.Err() == nil {
					_ = s.Do(ctx, 1, func() {
						n := busy.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						time.Sleep(time.Duration(1+r.IntN(20)) * time.Millisecond)
						busy.Add(-1)
						got[g%2].Add(1)
					}, []string{"a", "b"}[g%2])
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(8), most.Load())
		require.InEpsilon(t, 3, float64(got[0].Load())/float64(got[1].Load()), 0.05, "by quantum, which is by rate")
		require.Zero(t, s.Stats().Busy)
	})
}

// A thousand waiters, cancelled at random: every one is released or gives up, none
// twice, and tokens are taken for those released only.
func TestShaperConservesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustShaper(t, leaky(500, class("a", 100, 500), class("b", 100, 500), class("free", 100, 500, class("*", 1, 500))), sluice.ShaperOptions{})
		defer s.Close()
		var released, gone atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 1000 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 2))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%2 == 0 {
					time.AfterFunc(time.Duration(1+r.IntN(1500))*time.Millisecond, cancel) // once it waits
				}
				names := [][]string{{"a"}, {"b"}, {"free", fmt.Sprint(i % 7)}}[i%3]
				if _, err := s.Wait(ctx, 1, names...); err == nil {
					released.Add(1)
				} else {
					gone.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(1000), released.Load()+gone.Load())
		require.Greater(t, gone.Load(), int64(100))
		require.InDelta(t, float64(released.Load()), time.Since(start).Seconds()*500, 2, "one every 2 ms, cancelled ones took none")
		rows := s.Stats().Queues
		require.Equal(t, "global", rows[0].Path)
		sums := map[int]int64{}
		for _, q := range rows {
			require.Zero(t, q.Len)
			sums[q.Depth] += q.Released + q.Dropped[htb.DropCancelled]
		}
		require.Equal(t, map[int]int64{0: 1000, 1: 1000, 2: 333}, sums)
		require.Equal(t, released.Load(), rows[0].Released)
	})
}

func TestShaperDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		s := mustShaper(t, leaky(100, class("a", 100, 100)), sluice.ShaperOptions{Pool: 2})
		var released, closed atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				err := s.Do(t.Context(), 1, func() { released.Add(1); time.Sleep(30 * time.Millisecond) }, "a")
				if errors.Is(err, sluice.ErrClosed) {
					closed.Add(1)
				}
			})
		}
		synctest.Wait()
		require.NoError(t, s.Drain(t.Context()))
		require.Equal(t, int64(10), released.Load())
		_, err := s.Wait(t.Context(), 1, "a")
		require.ErrorIs(t, err, sluice.ErrClosed)
		wg.Wait()

		s = mustShaper(t, leaky(10, class("a", 10, 10)), sluice.ShaperOptions{})
		released.Store(0)
		for range 10 {
			wg.Go(func() {
				if _, err := s.Wait(t.Context(), 1, "a"); errors.Is(err, sluice.ErrClosed) {
					closed.Add(1)
				} else if err == nil {
					released.Add(1)
				}
			})
		}
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer stop()
		require.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
		wg.Wait()
		require.Equal(t, int64(4), released.Load())
		require.Equal(t, int64(6), closed.Load())
		s.Close()
	})
}

func TestShaperSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := class("a", 10, 10)
		a.Burst, a.CBurst = 10, 10
		s := mustShaper(t, class("", 10, 10, a), sluice.ShaperOptions{})
		defer s.Close()
		l, err := s.Leaf("a")
		require.NoError(t, err)
		_, err = s.Leaf("b")
		require.ErrorIs(t, err, htb.ErrUnknown)
		_, err = s.Wait(t.Context(), 1, "b")
		require.ErrorIs(t, err, htb.ErrUnknown)
		p, err := l.Wait(t.Context(), 10)
		require.NoError(t, err)
		require.ErrorIs(t, p.Settle(-1), htb.ErrCost)
		require.NoError(t, p.Settle(2))
		require.ErrorIs(t, p.Settle(0), htb.ErrSettled)
		start := time.Now()
		_, err = s.Wait(t.Context(), 8, "a")
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
	})
}

func TestLoadShaper(t *testing.T) {
	s, err := sluice.LoadShaper("config/tree.yaml")
	require.NoError(t, err)
	p, err := s.Wait(t.Context(), 1, "free", "alice")
	require.NoError(t, err)
	p.Done()
	require.NoError(t, s.Drain(t.Context()))
	for _, path := range []string{"config/none.yaml", "go.mod"} {
		_, err = sluice.LoadShaper(path)
		require.Error(t, err)
	}
	_, err = sluice.NewShaper(htb.Spec{}, sluice.ShaperOptions{})
	require.ErrorAs(t, err, &htb.Mistakes{})
	_, err = sluice.NewShaper(class("", 1, 1), sluice.ShaperOptions{Pool: -1})
	require.ErrorContains(t, err, "pool -1 is negative")
}

// Once in real time, in front of a real server of fixed size.
func TestShaperBeforeARealServer(t *testing.T) {
	const workers = 8
	var busy, most atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := busy.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(10 * time.Millisecond)
		busy.Add(-1)
	}))
	defer server.Close()
	s := mustShaper(t, class("", 1_000_000, 1_000_000, class("a", 300_000, 1_000_000), class("b", 100_000, 1_000_000)), sluice.ShaperOptions{Pool: workers})
	defer s.Close()
	var got [2]atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for g := range 40 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = s.Do(ctx, 1, func() {
					r, err := http.Get(server.URL)
					if err == nil {
						_ = r.Body.Close()
						got[g%2].Add(1)
					}
				}, []string{"a", "b"}[g%2])
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(workers))
	require.InEpsilon(t, 3, float64(got[0].Load())/float64(got[1].Load()), 0.05)
}
