package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sluice/sluice/config"
)

// settle is how long before the start everything is in place.
const settle = 100 * time.Millisecond

// firstPort is the port of the first flow; each has one of its own.
const firstPort = 10000

// wire is one flow under way, from a socket to another.
type wire struct {
	*schedule
	leaf     class
	from, to *net.UDPConn
	arrived  atomic.Int64  // packets
	moved    chan struct{} // holds one entry after an arrival
	series   series        // the receiver's, until it has ended
}

// record sends the flows of s through the lab.
func (l *lab) record(ctx context.Context, s *scenario, o options) (*recording, error) {
	r := newRecording(s)
	var err error
	if r.Kernel, err = kernelVersion(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	var wires []*wire
	var receivers sync.WaitGroup
	defer receivers.Wait()
	defer func() {
		for _, w := range wires {
			w.from.Close()
			w.to.Close()
		}
	}()
	for i, f := range s.senders {
		w := &wire{schedule: newSchedule(f.Flow, o.seed, i), leaf: f.leaf, moved: make(chan struct{}, 1), series: newSeries(s)}
		if w.to, err = l.recv.listen(firstPort + i); err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		if w.from, err = l.send.dial(firstPort+i, f.leaf.number()); err != nil {
			w.to.Close()
			return nil, fmt.Errorf("record: %w", err)
		}
		wires = append(wires, w)
	}

	start := time.Now().Add(settle)
	ctx, stop := context.WithDeadline(ctx, start.Add(s.duration))
	defer stop()
	failed := make(chan error, 2*len(wires)+1)
	for _, w := range wires {
		receivers.Go(func() { failed <- w.receive(start, s.step) })
	}
	var senders sync.WaitGroup
	for _, w := range wires {
		senders.Go(func() { failed <- w.send(ctx, start, o.backlog) })
	}
	senders.Go(func() { r.late = oversleep(ctx) })
	senders.Wait()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("record: stopped: %w", err)
	}
	if r.Packets, err = l.packets(); err != nil {
		return nil, err
	}
	for _, w := range wires {
		w.to.Close()
	}
	receivers.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	for _, w := range wires {
		for i, n := range w.series {
			r.Leaves[w.leaf.Name][i] += n
		}
	}
	return r, nil
}

// send sends the flow's packets until it ends or ctx does.
func (w *wire) send(ctx context.Context, start time.Time, backlog int64) error {
	if w.Arrivals != config.Backlogged {
		for ; !w.over() && sleepUntil(ctx, start.Add(w.at)); w.next() {
			if err := w.packet(); err != nil {
				return err
			}
		}
		return nil
	}
	if !sleepUntil(ctx, start.Add(w.From)) {
		return nil
	}
	end := start.Add(w.To)
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	for {
		for w.n-w.arrived.Load() < backlog && time.Now().Before(end) {
			if err := w.packet(); err != nil {
				return err
			}
			w.next()
		}
		select {
		case <-w.moved:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// zeros is what packets are filled with.
var zeros [largest]byte

func (w *wire) packet() error {
	_, err := w.from.Write(zeros[:w.cost-headers])
	return err
}

// receive counts packets by when the kernel got them, until the socket is closed.
func (w *wire) receive(start time.Time, step time.Duration) error {
	control := make([]byte, 128)
	data := make([]byte, largest)
	for {
		n, c, _, _, err := w.to.ReadMsgUDPAddrPort(data, control)
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		w.series.count(arrival(control[:c]).Sub(start), step, int64(n+headers))
		w.arrived.Add(1)
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
}

// arrival returns the kernel's time of a packet, or that it is now.
func arrival(control []byte) time.Time {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Now()
}

// sleepUntil returns false if ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// oversleep sleeps for a millisecond again and again until ctx ends, and returns
// the most that it woke up late.
func oversleep(ctx context.Context) (late time.Duration) {
	for ctx.Err() == nil {
		before := time.Now()
		time.Sleep(time.Millisecond)
		late = max(late, time.Since(before)-time.Millisecond)
	}
	return late
}
