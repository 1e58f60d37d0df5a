package conformance

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

// broken are limiters that each break a promise, and the law that must tell.
var broken = map[string]struct {
	law string
	bad func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error)
}{
	"refusals are charged": {"RefusalsChargeNobody", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		v, err := l.Allow(now, cost)
		if err == nil && !v.Allowed {
			_, _ = l.Allow(now, v.Remaining)
		}
		return v, err
	}},
	"a unit too much": {"Burst", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		v, err := l.Allow(now, cost)
		v.Allowed = v.Allowed || cost == v.Remaining+1
		return v, err
	}},
	"told to come too soon": {"RetryAfterIsHonest", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		v, err := l.Allow(now, cost)
		v.RetryAfter = v.RetryAfter / 2 / time.Microsecond * time.Microsecond
		return v, err
	}},
	"slow by a twentieth": {"LongRunRate", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		return l.Allow(now-now/20, cost)
	}},
	"fast by a twentieth": {"NoWindowIsOver", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		return l.Allow(now+now/20, cost)
	}},
	"any cost": {"CostErrors", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		return l.Allow(now, max(0, min(cost, 4)))
	}},
	"asking costs": {"ZeroCostAsks", func(l *algo.GCRA, now algo.Time, cost int64) (algo.Verdict, error) {
		return l.Allow(now, max(1, cost))
	}},
}

type brokenLimiter struct {
	*algo.GCRA
	bad func(*algo.GCRA, algo.Time, int64) (algo.Verdict, error)
}

func (b brokenLimiter) Allow(now algo.Time, cost int64) (algo.Verdict, error) {
	return b.bad(b.GCRA, now, cost)
}

func maker(bad func(*algo.GCRA, algo.Time, int64) (algo.Verdict, error)) Maker {
	return func(t testing.TB, rate algo.Rate, burst int64) Limiter {
		l, err := algo.NewGCRA(rate, burst)
		require.NoError(t, err)
		return brokenLimiter{l, bad}
	}
}

const child = "SLUICE_BROKEN_LIMITER"

// Each law fails for the limiter that breaks it: in a process of its own, as a test that
// fails fails those above it.
func TestLawsBite(t *testing.T) {
	if name := os.Getenv(child); name != "" {
		Run(t, time.Nanosecond, maker(broken[name].bad))
		return
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for name, b := range broken {
		cmd := exec.Command(self, "-test.run=^TestLawsBite$/^"+b.law+"$")
		cmd.Env = append(os.Environ(), child+"="+name)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s: %s does not tell", name, b.law)
		require.Contains(t, string(out), "--- FAIL: TestLawsBite/"+b.law, name)
	}
}

// And all pass for one that keeps them.
func TestLawsPass(t *testing.T) {
	Run(t, time.Nanosecond, maker((*algo.GCRA).Allow))
}
