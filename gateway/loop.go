package gateway

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo/redisgcra"
	"github.com/go-sluice/sluice/htb"
)

const (
	// mostReports is how many classes go in one exchange: some hundred microseconds of Redis.
	mostReports = 500
	// outAfter is how many exchanges in a row may fail until the outage policy holds.
	outAfter = 2
	beat     = time.Second // of heartbeats

	// patience is how long the start may take, and a call of the loop at least: nobody
	// waits for those.
	patience      = time.Second
	leastPatience = 200 * time.Millisecond
)

// shares is what a tree shares with other gateways.
type shares struct {
	every, ttl time.Duration // 0: no class has sync
	remote     bool          // a leaf is kept in Redis
}

func newShares(root htb.Spec) *shares {
	return &shares{root.SyncEvery(), root.SyncTTL(), anyRemote(root)}
}

func anyRemote(s htb.Spec) bool {
	remote := s.Remote
	for _, c := range s.Children {
		remote = remote || anyRemote(c)
	}
	return remote
}

// shared reports whether anything is.
func (s *shares) shared() bool { return s.every > 0 || s.remote }

// step is the time between two looks of the loop.
func (s *shares) step() time.Duration {
	d := beat
	if s.every > 0 {
		d = max(time.Millisecond, s.every/htb.Drifts)
	}
	if s.remote { // soon after the breaker lets a decision try
		d = min(d, probeEvery/htb.Drifts)
	}
	return d
}

// run is the loop of a gateway.
type run struct {
	*Gateway
	*shares
	failures int // exchanges in a row without an answer
	reports  []htb.Report
	told     time.Time
	beaten   time.Time
}

// start asks Redis how things are and starts the loop.
func (g *Gateway) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(patience, g.opts.Timeout))
	defer cancel()
	r := &run{Gateway: g, shares: g.shares.Load()}
	if r.shared() {
		r.heartbeat(ctx)
	}
	if err := r.tell(ctx, g.tree.Twins(sluice.Now(), math.MaxInt)); err != nil {
		r.setOut(err) // at once: what others use is not known
	}
	go r.loop()
}

// loop charges copies for others, and exchanges reports, until it is to stop.
func (r *run) loop() {
	defer close(r.done)
	tick := time.NewTicker(r.step())
	defer tick.Stop()
	calling := make(chan struct{}, 1) // full while a call is under way, which has the rest of r
	defer func() { calling <- struct{}{} }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		now := sluice.Now()
		r.tree.Drift(now)
		select {
		case calling <- struct{}{}:
		default:
			continue
		}
		if s := r.Gateway.shares.Load(); s != r.shares {
			r.shares = s
			tick.Reset(s.step())
		}
		r.reports = r.tree.Reports(now, r.reports[:0])
		if len(r.reports) == 0 && r.out.Load() && time.Since(r.told) >= r.every { // is it over?
			r.reports = append(r.reports, r.tree.Twins(now, 1)...)
		}
		beats := r.shared() && time.Since(r.beaten) >= r.beat()
		if len(r.reports) == 0 && !beats {
			<-calling
			continue
		}
		go func() {
			defer func() { <-calling }()
			ctx, cancel := context.WithTimeout(ctx, r.callTime())
			defer cancel()
			_ = r.tell(ctx, r.reports) // which has done what there is to do
			if beats {
				r.heartbeat(ctx)
			}
		}()
	}
}

// callTime is how long a call of the loop may take.
func (r *run) callTime() time.Duration {
	return max(min(2*r.every, patience), 4*r.opts.Timeout, leastPatience)
}

// tell reports, as many in a trip as may, and takes in the answers. It returns an error if
// none came.
func (r *run) tell(ctx context.Context, reports []htb.Report) (err error) {
	if len(reports) == 0 {
		return nil
	}
	answered := false
	for len(reports) > 0 {
		n := min(len(reports), mostReports)
		some, err2 := r.tellSome(ctx, reports[:n])
		answered, err = answered || some, errors.Join(err, err2)
		reports = reports[n:]
		if !some { // the others would wait in vain
			break
		}
	}
	if answered {
		r.failures = 0
		r.setOut(nil)
		return nil
	}
	if r.failures++; r.failures >= outAfter {
		r.setOut(err)
	}
	return err
}

// tellSome makes one exchange, and says if any report had an answer.
func (r *run) tellSome(ctx context.Context, reports []htb.Report) (answered bool, err error) {
	out := make([]redisgcra.Report, len(reports))
	for i, rep := range reports {
		out[i] = redisgcra.Report{
			Path: rep.Path, Rate: redisgcra.Limit(rep.Rate), Ceil: redisgcra.Limit(rep.Ceil),
			Used: rep.Used, Base: rep.Base, Copy: rep.Copy,
		}
	}
	answers := make([]redisgcra.Shared, len(reports))
	begin := time.Now()
	r.told = begin
	err = r.limiter.Exchange(ctx, r.opts.ID, r.ttl, out, answers)
	r.observe(Call{Kind: Exchange, Requests: len(reports), Took: time.Since(begin), Err: err})
	now := sluice.Now()
	for i, a := range answers {
		if a.Gateways == 0 { // no answer
			r.tree.Missed(now, reports[i], r.opts.OnOutage, r.others())
			continue
		}
		r.tree.Reconcile(now, reports[i], htb.Shared{Owed: a.Owed, Total: a.Total, Gateways: a.Gateways})
		answered = true
	}
	return answered, err
}

// others returns how many gateways there are, for all that is known.
func (r *run) others() int { return max(r.opts.Gateways, int(r.gateways.Load())) }

// setOut begins an outage of the classes with sync, for which err is the reason, or ends it.
func (r *run) setOut(err error) {
	out := err != nil
	if r.out.Swap(out) == out {
		return
	}
	if out {
		r.counters.opened.Add(1)
		r.tree.Disconnected(sluice.Now(), r.opts.OnOutage, r.others())
		r.opts.Logger.Warn("sluice: Redis does not answer exchanges", "tree", r.opts.Tree, "onOutage", r.opts.OnOutage, "error", err)
		return
	}
	r.tree.Disconnected(sluice.Now(), 0, 0)
	r.opts.Logger.Info("sluice: Redis answers exchanges again", "tree", r.opts.Tree)
}

// beat is the time between two heartbeats.
func (r *run) beat() time.Duration {
	if r.breaker.State() == gobreaker.StateHalfOpen && !r.back.Load() {
		return probeEvery
	}
	return beat
}

// heartbeat says that this gateway lives and, if decisions do not ask Redis, finds out
// whether one may.
func (r *run) heartbeat(ctx context.Context) {
	took, err := r.beatOnce(ctx)
	if r.breaker.State() == gobreaker.StateClosed {
		return
	}
	if err == nil && took > r.opts.Timeout { // it had to connect, or to wait for the end of the outage
		took, err = r.beatOnce(ctx)
	}
	r.back.Store(err == nil && took <= r.opts.Timeout)
}

func (r *run) beatOnce(ctx context.Context) (took time.Duration, err error) {
	begin := time.Now()
	r.beaten = begin
	n, err := r.limiter.Heartbeat(ctx, r.opts.ID, 3*beat)
	took = time.Since(begin)
	r.observe(Call{Kind: Heartbeat, Requests: 1, Took: took, Err: err})
	if err == nil {
		r.gateways.Store(int64(n))
	}
	return took, err
}

// leave reports for the last time, and says that this gateway is gone.
func (g *Gateway) leave(ctx context.Context) error {
	r := &run{Gateway: g, shares: g.shares.Load()}
	if !r.shared() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(patience, r.callTime()))
	defer cancel()
	reports := g.tree.Twins(sluice.Now(), math.MaxInt)
	err := r.tell(ctx, reports)
	paths := make([]string, len(reports))
	for i := range reports {
		paths[i] = reports[i].Path
	}
	return errors.Join(err, g.limiter.Leave(ctx, g.opts.ID, paths))
}
