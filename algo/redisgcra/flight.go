package redisgcra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// flight is one pipeline after the other, until no request waits.
type flight struct {
	queue   *queue
	batch   []*call
	settled []*call // by the last send
	alone   call    // of a flight with one
	scripts []run
	cmds    []redis.Cmder
	at      map[site]int // in scripts
}

// site is where requests must be for one run of the script to decide on them all. now
// differs in tests only.
type site struct {
	key     string
	shape   *shape
	general bool // by the script for any number of buckets
	now     int64
}

// run is one run of the script, on the requests of one key.
type run struct {
	site
	calls []*call
	cmd   command
	room  *room
}

// room is what a command is made of, and made anew when its flight is over.
type room struct {
	args   [6]any
	packed []byte
}

// MarshalBinary lets a room be an argument, which costs less than one of bytes.
func (r *room) MarshalBinary() ([]byte, error) { return r.packed, nil }

// command is one EVALSHA or EVAL that go-redis is not to send twice: what a server did
// before a connection broke is unknown, and a decision done twice charges twice. The
// StringCmd is new each time, as it remembers the slot of its key.
type command struct{ *redis.StringCmd }

// NoRetry tells go-redis so.
func (command) NoRetry() bool { return true }

// fly sends what waits until nothing does.
func (q *queue) fly() {
	f := q.flights.Get().(*flight)
	for {
		if f.batch = q.take(f.batch[:0]); len(f.batch) == 0 {
			break
		}
		// No longer than its last caller waits: nothing is sent for nobody.
		ctx, cancel := context.WithDeadline(context.Background(), f.batch[len(f.batch)-1].until)
		again := f.send(ctx, f.batch, false)
		q.answer(f.settled)
		if again = q.present(again); len(again) > 0 {
			f.send(ctx, again, true)
			q.answer(f.settled)
		}
		cancel()
		clear(f.batch)
	}
	f.forget()
	q.flights.Put(f)
}

// flyAlone sends one request from the goroutine of who asks, which saves two switches
// of goroutines, half the time of a lone decision. The connection's deadline is what
// ends it in time.
func (q *queue) flyAlone(ctx context.Context, r request) (answer, error) {
	inTime, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	f := q.flights.Get().(*flight)
	f.alone.request = r
	f.batch = append(f.batch[:0], &f.alone)
	if again := f.send(inTime, f.batch, false); len(again) > 0 {
		f.send(inTime, again, true)
	}
	q.land()
	a, err := f.alone.answer, f.alone.err
	f.alone = call{}
	f.forget()
	q.flights.Put(f)
	var timeout net.Error
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case inTime.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		err = ErrTimeout
		ours, _ := inTime.Deadline()
		if theirs, ok := ctx.Deadline(); ok && !ours.Before(theirs) {
			<-ctx.Done() // the connection's deadline was its, and came a moment before
			err = context.Cause(ctx)
		}
	}
	return a, err
}

// send sends calls as one pipeline and reads the answers into them: those are then in
// settled. It returns the calls that were not run for want of the script: a server that
// forgot it has not run it. With its source there are none.
func (f *flight) send(ctx context.Context, calls []*call, withSource bool) (again []*call) {
	f.plan(calls)
	f.cmds = f.cmds[:0]
	for i := range f.scripts {
		r := &f.scripts[i]
		script := &f.queue.opts.scripts.gcra
		if r.general {
			script = &f.queue.opts.scripts.leaf
		}
		r.cmd = script.command(ctx, r, withSource)
		f.cmds = append(f.cmds, r.cmd)
	}
	// Each command has its error.
	if f.queue.lone && len(f.cmds) == 1 { // which is cheaper without a pipeline
		_ = f.queue.client.Process(ctx, f.cmds[0])
	} else {
		pipe := f.queue.client.Pipeline()
		_ = pipe.BatchProcess(ctx, f.cmds...) // only queues them
		_, _ = pipe.Exec(ctx)
	}
	f.settled = f.settled[:0]
	for i := range f.scripts {
		r := &f.scripts[i]
		reply, err := r.cmd.Result()
		if err != nil && !withSource && redis.HasErrorPrefix(err, "NOSCRIPT") {
			again = append(again, r.calls...)
			continue
		}
		if brokeDown(err) && f.queue.lost != nil {
			f.queue.lost()
		}
		r.settle(reply, err)
		f.settled = append(f.settled, r.calls...)
	}
	return again
}

// forget lets go of what the flight carried, keeping the room for it.
func (f *flight) forget() {
	clear(f.at)
	clear(f.batch[:cap(f.batch)])
	clear(f.settled[:cap(f.settled)])
	for i := range f.scripts[:cap(f.scripts)] {
		r := &f.scripts[:cap(f.scripts)][i]
		clear(r.calls[:cap(r.calls)])
		if r.room != nil {
			r.room.args = [6]any{}
		}
		*r = run{calls: r.calls[:0], room: r.room}
	}
	clear(f.cmds[:cap(f.cmds)])
}

// plan sorts calls into runs of the script, in order of arrival.
func (f *flight) plan(calls []*call) {
	clear(f.at)
	f.scripts = f.scripts[:0]
	for _, c := range calls {
		at := site{c.key, c.shape, c.general(), c.now}
		i, ok := f.at[at]
		if !ok {
			i = len(f.scripts)
			f.at[at] = i
			if i < cap(f.scripts) { // with the room of an earlier run
				f.scripts = f.scripts[:i+1]
				f.scripts[i] = run{site: at, calls: f.scripts[i].calls[:0], room: f.scripts[i].room}
			} else {
				f.scripts = append(f.scripts, run{site: at})
			}
		}
		f.scripts[i].calls = append(f.scripts[i].calls, c)
	}
}

// settle reads the reply, or its lack, into the calls.
func (r *run) settle(reply string, err error) {
	width := r.shape.width()
	if err == nil && len(reply) != width*len(r.calls) {
		err = fmt.Errorf("%d bytes where %d answers of %d were due", len(reply), len(r.calls), width)
	}
	for i, c := range r.calls {
		if c.err = err; err == nil {
			c.answer = r.shape.parse(reply[i*width:])
		}
	}
}

// command returns the command that runs the script.
func (s *script) command(ctx context.Context, r *run, withSource bool) command {
	if r.room == nil {
		r.room = &room{}
	}
	packed := append(r.room.packed[:0], r.shape.header...)
	for _, c := range r.calls {
		packed = r.shape.appendRequest(packed, c.ways, c.cost)
	}
	r.room.packed = packed
	args := append(s.args(withSource, r.room.args[:0]), "1", r.key, r.room)
	if r.now != 0 {
		args = append(args, strconv.FormatInt(r.now, 10))
	}
	return command{redis.NewStringCmd(ctx, args...)}
}
