package htb

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// lock is a mutex for what takes some tens of nanoseconds: decisions. Of those who wait for
// it one looks whether it is free, now and then; the others sleep until it is their turn to
// look. A sync.Mutex that somebody has waited for a millisecond for is handed over
// from then on to who sleeps, at every decision: with many goroutines on few cores one
// request in a hundred waits for a millisecond then.
type lock struct {
	held  atomic.Uint32
	first sync.Mutex // whose holder is the one that looks
}

func (l *lock) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait()
	}
}

func (l *lock) Unlock() { l.held.Store(0) }

func (l *lock) wait() {
	l.first.Lock()
	defer l.first.Unlock()
	for looks := 0; ; looks++ {
		switch {
		case looks < 24:
			for range 64 << min(looks, 6) { // up to a microsecond, without a word to other cores
			}
		case looks < 64: // the holder may wait for a core
			runtime.Gosched()
		default: // or be at something longer
			time.Sleep(20 * time.Microsecond)
		}
		if l.held.Load() == 0 && l.held.CompareAndSwap(0, 1) {
			return
		}
	}
}
