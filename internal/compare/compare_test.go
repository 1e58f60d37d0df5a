package compare

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
)

// arrival is a request.
type arrival struct {
	at   time.Duration
	cost int64
}

func setup(rate algo.Rate, burst int64) Setup {
	return Setup{Limit: algo.Limit{Rate: rate, Burst: burst}, Peak: algo.Limit{Rate: algo.PerSecond(200), Burst: max(1, burst/2)}, Queue: 5 * burst, Unit: "units"}
}

func run(t *testing.T, s Setup, step time.Duration, arrivals []arrival, names ...string) *result.Comparison {
	c, err := New(s, names, step, arrivals[len(arrivals)-1].at)
	require.NoError(t, err)
	for _, a := range arrivals {
		c.Ask(a.at, a.cost)
	}
	got, err := c.Result("test")
	require.NoError(t, err)
	return got
}

// spaced is n requests of cost 1 from a time on.
func spaced(from time.Duration, n int, gap time.Duration) (out []arrival) {
	for i := range n {
		out = append(out, arrival{from + time.Duration(i)*gap, 1})
	}
	return out
}

// The step input by hand: 200 at 2000/s into 100/s, burst 200; at t after the first a
// bucket of capacity b has let min(all, b + 100 t) through, to the last whole request.
func TestStepInputByHand(t *testing.T) {
	got := run(t, setup(algo.PerSecond(100), 200), 100*time.Millisecond, spaced(5*time.Second, 200, 500*time.Microsecond))
	for name, want := range map[string]int64{
		"token-bucket": 200, "gcra": 200, "leaky-meter": 200, "leaky-one": 10, "leaky-queue": 200,
		"dual-leaky": 119, "fixed-window": 200, "sliding-log": 200, "sliding-counter": 200,
	} {
		i := slices.IndexFunc(got.Rows, func(r result.Flat) bool { return r.Flag == name })
		require.Equal(t, want, got.Rows[i].Accepted, name)
		require.Equal(t, 200-want, got.Rows[i].Rejected, name)
	}
	// The last finds 199 - 9.95 ahead of it.
	require.InDelta(t, 1890.5, got.Rows[4].Delay, 1e-6)
	require.Equal(t, result.Window{Seconds: .0995, Units: 200, Above: 190.05}, got.Rows[0].Worst)
	require.Equal(t, 8+200*16, got.Rows[7].State)
}

// The worst window is that of a search through all of them; the series, the envelope
// and the sums are what they say.
func TestAgainstSearch(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for round := range 40 {
		s := setup(algo.PerSecond(1+draw.Int64N(50)), 1+draw.Int64N(30))
		var in []arrival
		at := time.Duration(0)
		for range 150 {
			at += time.Duration(draw.Int64N(int64(200*time.Millisecond))) * time.Duration(draw.IntN(2))
			in = append(in, arrival{at, 1 + draw.Int64N(s.Burst)})
		}
		got := run(t, s, 250*time.Millisecond, in)
		require.Len(t, got.Rows, len(algorithms))
		total := got.Arrived[len(got.Arrived)-1]
		require.Equal(t, got.Wants, total)
		rate := s.Rate.PerSecond()
		for i, most := range got.Promised {
			end := time.Duration(i+1) * 250 * time.Millisecond
			want, before := float64(got.Arrived[i]), int64(0)
			for _, a := range in {
				if a.at < end {
					want = min(want, float64(before)+float64(s.Burst)+rate*(end-a.at).Seconds())
				}
				before += a.cost
			}
			require.InDelta(t, want, most, 1e-6, "round %d, step %d", round, i)
		}
		for _, r := range got.Rows {
			require.Equal(t, got.Wants, r.Accepted+r.Rejected, r.Name)
			if len(r.Series) < 4*int(got.Seconds/got.Step) { // a queue may take longer
				require.Equal(t, r.Accepted, r.Series[len(r.Series)-1], r.Name)
			}
			require.Len(t, r.Series, len(got.Arrived), r.Name)
		}
		for _, name := range []string{"fixed-window", "leaky-queue", "sliding-counter", "gcra"} {
			want, units := search(t, s, in, name)
			got := run(t, s, time.Second, in, name).Rows[0].Worst
			excess := float64(got.Units) - rate*got.Seconds
			require.InDelta(t, want, excess, 1e-6, "%s: %d against %+v", name, units, got)
			require.InDelta(t, want, got.Above, 1e-6)
			require.Equal(t, want > float64(s.Burst)+1e-9, got.Broken, "%s: %v of %d", name, want, s.Burst)
		}
	}
}

// search returns the most that a window has beyond rate times its length.
func search(t *testing.T, s Setup, in []arrival, name string) (most float64, units int64) {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.flag == name })
	l, err := algorithms[i].make(s)
	require.NoError(t, err)
	var out []arrival
	for _, a := range in {
		if v, err := l.Allow(algo.Time(a.at), a.cost); err == nil && v.Allowed {
			out = append(out, arrival{a.at + v.Delay, a.cost})
		}
	}
	for i := range out {
		sum := int64(0)
		for _, o := range out[i:] {
			sum += o.cost
			if excess := float64(sum) - s.Rate.PerSecond()*(o.at-out[i].at).Seconds(); excess > most {
				most, units = excess, sum
			}
		}
	}
	return most, units
}

func TestMistakes(t *testing.T) {
	_, err := New(setup(algo.PerSecond(1), 0), nil, time.Second, time.Second)
	require.ErrorContains(t, err, "token bucket: ")
	got := run(t, setup(algo.PerSecond(10), 5), time.Second, []arrival{{0, 3}, {0, 9}})
	notes := strings.Join(got.Notes, "\n")
	require.Contains(t, notes, "GCRA, leaky bucket as a meter, fixed window, sliding log, sliding counter, which needs --burst 9\n")
	require.Contains(t, notes, "rejected: leaky bucket of capacity 1, which takes 1 at a time\n")
	require.Contains(t, notes, "rejected: dual leaky bucket, which needs --burst 18")
	require.NotContains(t, notes, "queue")
	require.Equal(t, int64(9), got.Rows[0].Rejected)
}

// A queue that takes years makes no series of years, and no time beyond what there is.
func TestLongQueue(t *testing.T) {
	year, err := algo.NewRate(1, 365*24*time.Hour)
	require.NoError(t, err)
	s := setup(year, 1000)
	got := run(t, s, 10*time.Millisecond, spaced(0, 500, time.Millisecond), "leaky-queue", "gcra")
	require.LessOrEqual(t, len(got.Arrived), 4*50+1)
	require.Equal(t, int64(500), got.Rows[1].Accepted)
	require.Equal(t, int64(1), got.Rows[1].Series[len(got.Arrived)-1])
	require.Equal(t, int64(500), got.Rows[0].Series[len(got.Arrived)-1])
	require.Len(t, got.Notes, 1)
	require.Contains(t, got.Notes[0], "499 of 500 units of the leaky bucket as a queue leave later")
}

// counterError runs a sliding counter and a sliding log on the same arrivals: on how many
// they disagree, both ways, and how far the counter lets more or less than the limit into
// a window.
func counterError(t *testing.T, limit int64, window time.Duration, in []arrival) (wrongYes, wrongNo int, overshoot, share float64) {
	c, err := algo.NewSlidingCounter(limit, window)
	require.NoError(t, err)
	l, err := algo.NewSlidingLog(limit, window)
	require.NoError(t, err)
	truth := []arrival{} // what the counter let through in the last window
	held, passed, logged := int64(0), int64(0), int64(0)
	for _, a := range in {
		for len(truth) > 0 && a.at-truth[0].at >= window {
			held -= truth[0].cost
			truth = truth[1:]
		}
		v, err := c.Allow(algo.Time(a.at), a.cost)
		require.NoError(t, err)
		switch exact := held+a.cost <= limit; {
		case v.Allowed && !exact:
			wrongYes++
		case !v.Allowed && exact:
			wrongNo++
		}
		if v.Allowed {
			truth = append(truth, a)
			held += a.cost
			passed += a.cost
			overshoot = max(overshoot, float64(held)/float64(limit)-1)
		}
		if v, err = l.Allow(algo.Time(a.at), a.cost); err == nil && v.Allowed {
			logged += a.cost
		}
	}
	return wrongYes, wrongNo, overshoot, float64(passed)/float64(logged) - 1
}

// The sliding counter's error on the worst case is a whole limit.
func TestCounterErrorAtWorst(t *testing.T) {
	const limit = 1000
	in := spaced(time.Second-1, limit, 0)
	in = append(in, spaced(time.Second, limit, time.Millisecond-1)...)
	yes, no, over, share := counterError(t, limit, time.Second, in)
	t.Logf("limit %d per second, %d at the end of a window and %d evenly over the next: %d let through that a log refuses, %d the other way; %.1f %% over the limit in a window, %+.1f %% let through", limit, limit, limit, yes, no, 100*over, 100*share)
	require.InDelta(t, 1, over, 0.01)
	require.Zero(t, no)
}

// And on real traffic: the requests of the access log as one, and the tokens of the two
// services, each under limits that refuse some of them.
func TestCounterErrorOnRecordedTraffic(t *testing.T) {
	for _, c := range []struct {
		file, class string
		limit       int64
		window      time.Duration
		yes, no     float64 // percent of all decisions: let through what a log refuses; the other way
		over, share float64 // percent: the most beyond the limit in a window; more let through than by a log
	}{
		{"access.log", "", 20, 10 * time.Second, 3.78, 10.2, 25, -1.93},
		{"access.log", "", 60, time.Minute, 0, 0, 0, 0},
		{"access.log", "", 200, time.Hour, 0, 15.9, 0, -15.9},
		{"llm_tokens.csv", "conv", 100_000, 10 * time.Second, 7.15, 1.28, 20.57, 1.37},
		{"llm_tokens.csv", "conv", 500_000, time.Minute, 10.16, 1.5, 6.54, 0.74},
		{"llm_tokens.csv", "code", 100_000, 10 * time.Second, 16.51, 11.30, 54.06, 2.92},
		{"llm_tokens.csv", "code", 500_000, time.Minute, 19.05, 5.47, 56.62, 8.88},
	} {
		name := fmt.Sprintf("%s %s %d per %v", c.file, c.class, c.limit, c.window)
		in := recorded(t, c.file, c.class)
		yes, no, over, share := counterError(t, c.limit, c.window, in)
		part := func(n int) float64 { return 100 * float64(n) / float64(len(in)) }
		t.Logf("%s: %.2f, %.2f, %.2f, %+.2f", name, part(yes), part(no), 100*over, 100*share)
		require.InDelta(t, c.yes, part(yes), 0.005, name)
		require.InDelta(t, c.no, part(no), 0.005, name)
		require.InDelta(t, c.over, 100*over, 0.005, name)
		require.InDelta(t, c.share, 100*share, 0.005, name)
	}
}

func recorded(t *testing.T, file, class string) (out []arrival) {
	path := "../../../shared/data/" + file
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no recorded traffic here: %v", err)
	}
	o := trace.Options{Reorder: 2 * time.Minute}
	s, err := trace.Scan(t.Context(), path, o)
	require.NoError(t, err)
	in, err := trace.Open(path, s, o)
	require.NoError(t, err)
	defer in.Close()
	for {
		r, ok, err := in.Next()
		require.NoError(t, err)
		if !ok {
			return out
		}
		if class == "" || slices.Equal(r.Class, []string{class}) {
			out = append(out, arrival{r.At, r.Cost})
		}
	}
}

// The worst window is a leaky bucket's level; that of a fixed window shows its factor of two.
func TestWorstAcrossAnEdge(t *testing.T) {
	in := append(spaced(2*time.Second-1, 200, 0), spaced(2*time.Second, 200, 0)...)
	got := run(t, setup(algo.PerSecond(100), 200), time.Second, in, "fixed-window").Rows[0].Worst
	require.Equal(t, int64(400), got.Units)
	require.Zero(t, big.NewRat(1, 1e9).Cmp(new(big.Rat).SetFrac64(int64(got.Seconds*1e9+.5), 1e9)))
}

// A window over which a promise is broken by a little is not hidden by a longer one with
// a higher level: the share is of the burst.
func TestShareIsOfTheBurst(t *testing.T) {
	in := append(spaced(2*time.Second-1, 200, 0), spaced(2*time.Second, 101, 10*time.Millisecond)...)
	got := run(t, setup(algo.PerSecond(100), 200), time.Second, in, "fixed-window", "gcra")
	require.Equal(t, result.Window{Seconds: 1e-9, Units: 201, Above: 200.9999999, Broken: true}, got.Rows[1].Worst)
	require.False(t, got.Rows[0].Worst.Broken)
}

// What is advised helps: with that burst and queue nothing is impossible any more.
func TestNeeds(t *testing.T) {
	in := []arrival{{0, 30}, {time.Second, 90}}
	got := run(t, setup(algo.PerSecond(10), 5), time.Second, in)
	require.Contains(t, strings.Join(got.Notes, "\n"), "leaky bucket as a queue, which needs --queue 90")
	s := setup(algo.PerSecond(10), 180)
	s.Queue = 90
	require.Len(t, run(t, s, time.Second, in).Notes, 1, "but for the one of capacity 1")
	s = setup(algo.PerSecond(10), 90)
	require.Empty(t, run(t, s, time.Second, in, "gcra", "fixed-window", "sliding-log", "leaky-queue").Notes)
}

// More than can be counted is an error.
func TestTooMuchToCount(t *testing.T) {
	c, err := New(setup(algo.PerSecond(10), 5), nil, time.Second, time.Second)
	require.NoError(t, err)
	for range 3 {
		c.Ask(0, math.MaxInt64/2)
	}
	_, err = c.Result("x")
	require.ErrorContains(t, err, "more than 2^63-1 units")
}
