package sluice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

var (
	// ErrMaxWait is wrapped when a request waited as long as its leaf allows.
	ErrMaxWait = errors.New("waited too long")
	// ErrTooLate is wrapped when a request could not be released before its context's
	// deadline: it is refused at once, not after a futile wait.
	ErrTooLate = errors.New("cannot be in time")
	// ErrClosed is wrapped when the shaper takes nothing more, or gives back what it had.
	ErrClosed = errors.New("shaper is closed")
)

// maxLate is how much of a late wake-up is made up for: releases that fell due
// meanwhile go out together, so that late timers do not lower the rate. What a window of
// length w holds at most is cburst + ceil*(w + maxLate).
const maxLate = 10 * time.Millisecond

// Shaper delays instead of rejecting: it puts a service in front of a downstream of
// fixed size. Requests wait in a queue per leaf and are released in the order of
// [htb.Scheduler]. One goroutine does it for any number of waiters; [Shaper.Close] ends
// it. A Shaper may be used by any number of goroutines. Make one with [NewShaper].
type Shaper struct {
	mu     sync.Mutex
	sched  *htb.Scheduler
	pool   int
	busy   int
	next   htb.Time // when the scheduler has something again
	asleep htb.Time // until when the goroutine sleeps
	late   time.Duration
	closed bool
	queued map[*waiter]struct{}
	idle   chan struct{} // closed when closed and nothing is queued or busy

	wake chan struct{} // the goroutine has to look sooner than it meant to
	stop chan struct{}
	done chan struct{}
}

// ShaperOptions are the options of a Shaper.
type ShaperOptions struct {
	// Dialect is htb.Strict, the default, or htb.Kernel.
	Dialect htb.Dialect
	// Pool is how many requests may be released and not done: the size of the
	// downstream. 0 means no bound, and that Done need not be called.
	Pool int
}

// waiter is a request in the shaper.
type waiter struct {
	item  htb.Item
	ready chan error // holds one; nil: released
}

// NewShaper returns a shaper for the tree of which root is the root, and starts its
// goroutine. A Spec with mistakes gives the error htb.Mistakes.
func NewShaper(root htb.Spec, o ShaperOptions) (*Shaper, error) {
	sched, err := htb.NewScheduler(root, o.Dialect)
	if err != nil {
		return nil, err
	}
	if o.Pool < 0 {
		return nil, fmt.Errorf("sluice: pool %d is negative: write how many requests the downstream takes at once, or 0", o.Pool)
	}
	s := &Shaper{
		sched: sched, pool: o.Pool, next: never, asleep: never,
		queued: map[*waiter]struct{}{}, idle: make(chan struct{}),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s, nil
}

// LoadShaper reads the tree file at path, a .tc file too, and starts a shaper for it,
// with the pool and the dialect that it says. The error is config.Errors, everything
// that is wrong with the file, or that it could not be read.
func LoadShaper(path string) (*Shaper, error) {
	f, err := config.LoadShape(path)
	if err != nil {
		return nil, err
	}
	o := ShaperOptions{Pool: f.Settings.Pool}
	if f.Semantics == "kernel" {
		o.Dialect = htb.Kernel
	}
	return NewShaper(f.Root, o)
}

const never = htb.Time(1<<63 - 1)

// Pass is a released request. Its methods may be called by any goroutine.
type Pass struct {
	s    *Shaper
	item *htb.Item
	once sync.Once

	settled bool // guarded by s.mu
}

// Done says that the downstream is done with the request, which frees its slot of the
// pool. Further calls do nothing.
func (p *Pass) Done() {
	p.once.Do(func() {
		s := p.s
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		s.pumpLocked(Now())
	})
}

// Settle corrects the charge to what the request cost, on exactly the classes that
// paid, once: as [htb.Hold.Settle], whose errors it returns.
func (p *Pass) Settle(cost int64) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.settled {
		return htb.ErrSettled
	}
	now := Now()
	if err := p.s.sched.Settle(now, p.item, cost); err != nil {
		return err
	}
	p.settled = true
	p.s.pumpLocked(now)
	return nil
}

// Wait returns when it is the turn of a request of cost units at the leaf that names
// lead to. With a pool, Done must be called on the Pass when the request is through.
//
// The errors: those of [htb.Tree.Allow] for names and cost, [htb.ErrFull] when the
// leaf's queue has no room, [ErrTooLate] at once when ctx does not allow the time that
// what is ahead in the leaf's own queue takes, the cause of ctx when it ends,
// [ErrMaxWait], and [ErrClosed]. A request that was not released has taken nothing.
func (s *Shaper) Wait(ctx context.Context, cost int64, names ...string) (*Pass, error) {
	l, err := s.sched.Leaf(names...) // looks at what never changes
	if err != nil {
		return nil, err
	}
	return s.wait(ctx, cost, l)
}

// Leaf returns a handle on the leaf that names lead to, for callers that wait there
// often. It may be shared between goroutines.
func (s *Shaper) Leaf(names ...string) (*ShaperLeaf, error) {
	l, err := s.sched.Leaf(names...)
	if err != nil {
		return nil, err
	}
	return &ShaperLeaf{s, l}, nil
}

// ShaperLeaf is a handle on a leaf of a [Shaper].
type ShaperLeaf struct {
	s    *Shaper
	leaf *htb.Leaf
}

// Wait is [Shaper.Wait] without the lookup.
func (l *ShaperLeaf) Wait(ctx context.Context, cost int64) (*Pass, error) {
	return l.s.wait(ctx, cost, l.leaf)
}

func (s *Shaper) wait(ctx context.Context, cost int64, l *htb.Leaf) (*Pass, error) {
	w, maxWait, err := s.enqueue(ctx, cost, l)
	if err != nil {
		return nil, err
	}
	pass := &Pass{s: s, item: &w.item}
	select {
	case err := <-w.ready: // most are released at once
		if err != nil {
			return nil, err
		}
		return pass, nil
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	why := htb.DropCancelled
	select {
	case err := <-w.ready:
		if err != nil {
			return nil, err
		}
		return pass, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			why = htb.DropDeadline
		}
	case <-timer.C:
		err = fmt.Errorf("sluice: class %q: %w: %v", l.Path(), ErrMaxWait, maxWait)
		why = htb.DropMaxWait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sched.Cancel(&w.item, why) { // its turn came in the same moment
		if e := <-w.ready; e != nil {
			return nil, e
		}
		return pass, nil
	}
	delete(s.queued, w)
	s.settledLocked()
	return nil, err
}

// Do calls f when it is the turn of a request, and marks it done when f returns. The
// errors are those of [Shaper.Wait]; f has not been called then.
func (s *Shaper) Do(ctx context.Context, cost int64, f func(), names ...string) error {
	p, err := s.Wait(ctx, cost, names...)
	if err != nil {
		return err
	}
	defer p.Done()
	f()
	return nil
}

func (s *Shaper) enqueue(ctx context.Context, cost int64, l *htb.Leaf) (*waiter, time.Duration, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	deadline, bounded := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, fmt.Errorf("sluice: class %q: %w", l.Path(), ErrClosed)
	}
	now := Now()
	s.pumpLocked(now) // what fell due before goes first
	earliest, maxWait, err := s.sched.EarliestLeaf(now, cost, l)
	if err != nil {
		return nil, 0, err
	}
	if allowed := time.Until(deadline); bounded && earliest.Sub(now) > allowed {
		s.sched.Refuse(now, l)
		return nil, 0, fmt.Errorf("sluice: class %q: %w: what is ahead takes %v, and the deadline is in %v", l.Path(), ErrTooLate, earliest.Sub(now), allowed)
	}
	w := &waiter{item: htb.Item{Cost: cost}, ready: make(chan error, 1)}
	w.item.Value = w
	if err := s.sched.EnqueueLeaf(now, &w.item, l); err != nil {
		return nil, 0, err
	}
	s.queued[w] = struct{}{}
	s.pumpLocked(now)
	return w, maxWait, nil
}

// pumpLocked releases all that is due at now. The scheduler is asked for the times at
// which things fell due, not for when we came to look: a late wake-up lets go together
// what it should have let go one by one.
func (s *Shaper) pumpLocked(now htb.Time) {
	at := now
	if s.next < now {
		s.late = max(s.late, now.Sub(s.next))
		at = max(s.next, now.Add(-maxLate))
	}
	for {
		if s.pool > 0 && s.busy >= s.pool {
			s.next = never // Done looks again
			break
		}
		item, next, ok := s.sched.Dequeue(at)
		if ok {
			w := item.Value.(*waiter)
			delete(s.queued, w)
			s.busy++
			w.ready <- nil
			continue
		}
		if s.next = next; next > now {
			break
		}
		at = max(next, now.Add(-maxLate))
	}
	if s.pool == 0 {
		s.busy = 0
	}
	if s.next < s.asleep {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.settledLocked()
}

// settledLocked tells Drain when there is nothing left.
func (s *Shaper) settledLocked() {
	if s.closed && len(s.queued) == 0 && (s.busy == 0 || s.pool == 0) {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// Timers wake up to a millisecond late. So the goroutine sets its timer tail short of
// the time and naps the rest, in slices, so that it soon sees what changed meanwhile.
const (
	tail  = 1300 * time.Microsecond
	slice = 300 * time.Microsecond
)

// run is the goroutine: it sleeps until something falls due.
func (s *Shaper) run() {
	defer close(s.done)
	napping := napping
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := Now()
		s.pumpLocked(now)
		s.asleep = s.next
		pause := s.next.Sub(now)
		s.mu.Unlock()
		if napping && pause <= tail {
			select {
			case <-s.stop:
				return
			default:
			}
			nap(min(pause, slice))
			napping = Now() != now // a clock that stands still is a test's: its timers are exact
			continue
		}
		if napping {
			pause -= tail
		}
		timer.Reset(min(pause, time.Hour))
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.stop:
			return
		}
	}
}

// Drain takes nothing more and returns when all that is queued has been released and,
// with a pool, is done; or when ctx ends: then what is still queued gets [ErrClosed],
// and the error is the cause of ctx. The goroutine has ended in either case.
func (s *Shaper) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.settledLocked()
	s.mu.Unlock()
	select {
	case <-s.idle:
		s.Close()
		return nil
	case <-ctx.Done():
		s.Close()
		return context.Cause(ctx)
	}
}

// Close takes nothing more, gives back what is queued with [ErrClosed], and ends the
// goroutine. Requests that have been released go on. Further calls do nothing.
func (s *Shaper) Close() {
	s.mu.Lock()
	s.closed = true
	for w := range s.queued { // the order does not matter: none of them is released
		if s.sched.Cancel(&w.item, htb.DropCancelled) {
			w.ready <- fmt.Errorf("sluice: class %q: %w", w.item.Leaf(), ErrClosed)
		}
		delete(s.queued, w)
	}
	s.settledLocked()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.done
}

// ShaperStats tells of a shaper.
type ShaperStats struct {
	Queues []htb.QueueStats // of every class
	Busy   int              // released and not done; 0 without a pool
	Late   time.Duration    // the latest that a wake-up has been
}

// Stats returns how things stand.
func (s *Shaper) Stats() ShaperStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ShaperStats{Queues: s.sched.Queues(), Busy: s.busy, Late: s.late}
}
