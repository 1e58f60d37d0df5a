package htb

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One at a time, also while its holder sleeps, and everybody gets it.
func TestLockExcludes(t *testing.T) {
	var l lock
	var wg sync.WaitGroup
	n, inside := 0, 0
	for g := range 32 {
		wg.Go(func() {
			for i := range 2000 {
				l.Lock()
				inside++
				require.Equal(t, 1, inside)
				if n++; g == 0 && i%500 == 0 {
					time.Sleep(time.Millisecond)
				}
				inside--
				l.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 64_000, n)
}
