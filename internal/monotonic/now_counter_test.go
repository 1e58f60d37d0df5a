//go:build linux && amd64

package monotonic

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The counter tells what the system does, to goroutines on all cores.
func TestNowByTheCounter(t *testing.T) {
	counts.Store(true) // whatever the system thinks of it: on one machine, for a second
	defer func() {
		counts.Store(false)
		current.Store(nil)
		floor.Store(0)
	}()
	const off = 200 * time.Microsecond // a reading that was interrupted in its midst
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := int64(0)
			for end := System() + int64(time.Second); last < end; {
				before := System()
				now := Now()
				after := System()
				if !assert.GreaterOrEqual(t, now, last) || !assert.Greater(t, now, before-int64(off)) || !assert.Less(t, now, after+int64(off)) {
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
	require.NotNil(t, current.Load(), "the counter was not used")
}

// Nothing is counted in tests, or time would pass in a bubble.
func TestNowInATest(t *testing.T) {
	require.False(t, countable())
	synctest.Test(t, func(t *testing.T) {
		before := Now()
		time.Sleep(time.Hour)
		require.Equal(t, int64(time.Hour), Now()-before)
	})
}

func BenchmarkNow(b *testing.B) {
	b.Run("system", func(b *testing.B) {
		for b.Loop() {
			System()
		}
	})
	b.Run("counter", func(b *testing.B) {
		counts.Store(true)
		defer func() {
			counts.Store(false)
			current.Store(nil)
		}()
		for b.Loop() {
			Now()
		}
	})
}
