package htb

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One at a time, also while its holder is away for longer, and everybody gets it.
func TestLockExcludes(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, cores := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(cores)
		var l lock
		var wg sync.WaitGroup
		n, inside := 0, 0
		for g := range 32 {
			wg.Go(func() {
				for i := range 2000 {
					l.Lock()
					inside++
					assert.Equal(t, 1, inside)
					if n++; g == 0 && i%100 == 0 {
						for range 200 {
							runtime.Gosched()
						}
					}
					inside--
					l.Unlock()
				}
			})
		}
		wg.Wait()
		require.Equal(t, 64_000, n)
		require.Zero(t, l.state.Load())
	}
}

// Who waits for long does not keep a core busy, and is woken.
func TestLockSleeps(t *testing.T) {
	var l lock
	for range 100 {
		l.Lock()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				l.Lock()
				defer l.Unlock()
			})
		}
		require.Eventually(t, func() bool { return l.state.Load() == asleep }, 10*time.Second, 10*time.Microsecond)
		l.Unlock()
		wg.Wait()
	}
}
