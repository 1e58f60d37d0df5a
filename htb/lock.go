package htb

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// lock is a mutex for what takes some tens of nanoseconds. Of those who wait for it one
// looks whether it is free, now and then; the others yield once, and then sleep until it is
// their turn to look.
//
// A sync.Mutex that somebody has waited a millisecond for is handed over from then on to
// who sleeps, at every decision: with many goroutines on few cores one request in a
// hundred may wait for 0.2 ms then. Here it is whoever comes that takes it when it is free.
type lock struct {
	state atomic.Uint32
	first sync.Mutex // whose holder looks
	gate  sync.Mutex // at which it sleeps
}

// The states of a lock, but for 0, which is free.
const (
	held   = 1
	asleep = 2 // held, and who looks is to be woken
)

const (
	// How long a look waits, in turns of an empty loop, each about a clock cycle. To look
	// more often has two cores take the tree from each other at every decision: ADR 16.
	firstLook = 1024
	nextLook  = 2048

	// mostPeeks take some tens of microseconds. A holder that has not come by until then
	// waits for a core, maybe this one.
	mostPeeks = 40
)

func (l *lock) Lock() {
	if !l.state.CompareAndSwap(0, held) {
		l.wait()
	}
}

func (l *lock) Unlock() {
	if l.state.Swap(0) == asleep {
		l.wake()
	}
}

//go:noinline
func (l *lock) wake() { l.gate.Unlock() } // a function of its own so that Unlock is inlined

// tryLock is Lock if it is free.
func (l *lock) tryLock() bool { return l.state.Load() == 0 && l.state.CompareAndSwap(0, held) }

func (l *lock) wait() {
	if !l.first.TryLock() {
		runtime.Gosched() // to who looks, if it has no core, before there is a queue of sleepers
		if l.tryLock() {
			return
		}
		l.first.Lock()
	}
	defer l.first.Unlock()
	for spin(firstLook); ; {
		for range mostPeeks {
			if l.tryLock() {
				return
			}
			spin(nextLook)
		}
		l.gate.Lock() // Unlock gives it back if the next line says so
		if l.state.CompareAndSwap(held, asleep) {
			l.gate.Lock()
		}
		l.gate.Unlock()
	}
}

// spin leaves the line of the cache that the lock is in to others.
//
//go:noinline
func spin(turns int) {
	for range turns {
	}
}
