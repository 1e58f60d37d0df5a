package redisgcra

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// queue collects the requests that come while flights are under way.
//
// INVARIANT: while a request waits, a flight is under way; so the last one to land
// leaves an empty queue, and an idle queue has no goroutine.
type queue struct {
	client redis.UniversalClient
	opts   Options
	inline bool   // the client heeds deadlines, so a lone caller may fly itself
	second int    // how many must wait for a further flight to start
	lone   bool   // there is one server
	lost   func() // is told that a connection broke; nil on a lone server

	calls   sync.Pool // of *call
	flights sync.Pool // of *flight

	mu      sync.Mutex
	waiting []*call // in order of arrival, the gone ones among them
	gone    int     // how many of waiting were given up
	aloft   int     // flights under way
	closed  bool
	landed  sync.Cond // the last flight has
}

func (q *queue) init(client redis.UniversalClient, opts Options, inline bool) {
	q.client, q.opts, q.inline = client, opts, inline
	q.second = max(1, opts.MaxBatch/2)
	q.landed.L = &q.mu
	q.calls.New = func() any {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		return &call{answered: make(chan struct{}, 1), timer: timer}
	}
	q.flights.New = func() any { return &flight{queue: q, at: map[site]int{}} }
}

// call is one request, and whoever waits for its answer.
type call struct {
	request
	answer   answer
	err      error
	answered chan struct{}
	timer    *time.Timer
	until    time.Time // when timer ends

	// Guarded by queue.mu.
	stage stage
}

// stage is how far a call is. A call that was given up is never touched again by who
// asked, and one that was answered never again by a flight.
type stage uint8

const (
	waiting stage = iota
	flying
	done
	givenUp
)

// ask waits for the answer to r: until there is one, ctx ends or the timeout is over.
func (q *queue) ask(ctx context.Context, r request) (answer, error) {
	if q.inline && q.lead() {
		return q.flyAlone(ctx, r)
	}
	c := q.calls.Get().(*call)
	c.request, c.answer, c.err, c.stage = r, answer{}, nil, waiting
	c.until = time.Now().Add(q.opts.Timeout)
	if err := q.push(c); err != nil {
		q.calls.Put(c)
		return answer{}, err
	}
	c.timer.Reset(q.opts.Timeout)
	var err error
	select {
	case <-c.answered:
		c.timer.Stop()
	case <-c.timer.C:
		err = ErrTimeout
	case <-ctx.Done():
		c.timer.Stop()
		err = context.Cause(ctx)
	}
	if err != nil {
		if q.giveUp(c) {
			return answer{}, err // c is the flight's, or garbage
		}
		<-c.answered // it came just now
	}
	a, err := c.answer, c.err
	if err != nil && !time.Now().Before(c.until) { // the flight ended a moment before the timer
		err = ErrTimeout
	}
	c.request, c.err = request{}, nil
	q.calls.Put(c)
	return a, err
}

// lead starts a flight with the caller for a pilot, if none is under way.
func (q *queue) lead() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aloft > 0 || q.closed {
		return false
	}
	q.aloft++
	return true
}

// land ends a flight that its caller was the pilot of. What waits now goes on without.
func (q *queue) land() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		go q.fly()
		return
	}
	q.landLocked()
}

func (q *queue) landLocked() {
	if q.aloft--; q.aloft == 0 {
		q.landed.Broadcast()
	}
}

// push appends c to the queue, and starts a flight if none is under way, or if enough
// wait to fill a good part of a further one.
func (q *queue) push(c *call) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if len(q.waiting) >= q.opts.MaxQueue {
		if q.gone == 0 {
			return ErrBusy
		}
		q.sweepLocked()
	}
	q.waiting = append(q.waiting, c)
	if q.aloft == 0 || q.aloft < q.opts.Flights && len(q.waiting) >= q.second {
		q.aloft++
		go q.fly()
	}
	return nil
}

// giveUp gives up waiting for c, unless its answer has come.
func (q *queue) giveUp(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.stage == done {
		return false
	}
	if c.stage == waiting {
		q.gone++
	}
	c.stage = givenUp
	return true
}

// sweepLocked drops the calls that were given up.
func (q *queue) sweepLocked() {
	kept := q.waiting[:0]
	for _, c := range q.waiting {
		if c.stage == waiting {
			kept = append(kept, c)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting, q.gone = kept, 0
}

// take moves up to MaxBatch calls from the queue to the end of batch. When there are
// none, the flight has landed.
func (q *queue) take(batch []*call) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone > 0 {
		q.sweepLocked()
	}
	n := min(len(q.waiting), q.opts.MaxBatch)
	for _, c := range q.waiting[:n] {
		c.stage = flying
		batch = append(batch, c)
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	if n == 0 {
		q.landLocked()
	}
	return batch
}

// answer hands out what calls were answered, but to those who left.
func (q *queue) answer(calls []*call) {
	q.mu.Lock()
	for i, c := range calls {
		if c.stage == flying {
			c.stage = done
		} else {
			calls[i] = nil
		}
	}
	q.mu.Unlock()
	for _, c := range calls {
		if c != nil {
			c.answered <- struct{}{} // never blocks: one answer a call
		}
	}
}

// present drops from calls those that were given up.
func (q *queue) present(calls []*call) []*call {
	if len(calls) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := calls[:0]
	for _, c := range calls {
		if c.stage == flying {
			kept = append(kept, c)
		}
	}
	return kept
}

// close refuses further calls and waits until those under way have landed.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.aloft > 0 {
		q.landed.Wait()
	}
}
