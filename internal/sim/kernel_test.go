package sim

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/result"
)

// recording is what the Linux kernel let through: bytes per leaf and step.
type recording struct {
	Kernel  string               `json:"kernel"`
	Step    float64              `json:"step"`
	Seconds float64              `json:"seconds"`
	Leaves  map[string][]float64 `json:"leaves"`
}

// Every recording from the kernel: each leaf's total within 1 % of the link, each
// full step within 3 % away from the edges where flows start and stop.
func TestKernelParity(t *testing.T) {
	files, err := filepath.Glob("testdata/kernel/*.kernel.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".kernel.json")
		t.Run(name, func(t *testing.T) {
			var rec recording
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &rec))
			f, err := config.ParseFile("testdata/kernel/" + name + ".tc")
			require.NoError(t, err)
			l, err := config.ParseLoadFile("testdata/kernel/"+name+".load.yaml", f.Unit)
			require.NoError(t, err)
			run, err := Shape(context.Background(), f, l, Options{Step: time.Duration(rec.Step * 1e9), Top: 20})
			require.NoError(t, err)
			checkShaped(t, run)
			link := f.Root.Rate.PerSecond()
			whole, step := 0.0, 0.0
			for id, want := range rec.Leaves {
				r := rowOf(t, run, id)
				sum, off := 0.0, 0.0 // running difference, in bytes
				for i, w := range want {
					have := 0.0
					if i < len(r.Series.Gets) {
						have = float64(r.Series.Gets[i])
					}
					sum += w
					off += have - w
					d := have - w
					if rec.Step < 1 { // short steps: the running sums
						d = off * rec.Step
					}
					if !edge(l, float64(i)*rec.Step, rec.Step) {
						step = max(step, math.Abs(d)/(link*rec.Step))
					}
				}
				whole = max(whole, math.Abs(float64(r.Gets)-sum)/(link*rec.Seconds))
			}
			t.Logf("worst leaf %.2f %% of the link over all, %.2f %% in a step", 100*whole, 100*step)
			require.LessOrEqual(t, whole, 0.01)
			require.LessOrEqual(t, step, 0.03)
		})
	}
}

// edge says whether a flow starts or stops within the step or at its ends: what a
// class saved or has queued shows for a moment.
func edge(l *config.LoadFile, at, step float64) bool {
	for _, f := range l.Flows {
		for _, e := range []time.Duration{f.From, f.To} {
			if s := e.Seconds(); s > at-1e-9 && s < at+step+1e-9 {
				return true
			}
		}
	}
	return false
}

// checkShaped checks what holds of the numbers of every run in shape mode.
func checkShaped(t testing.TB, run *result.Run) {
	t.Helper()
	require.Zero(t, run.Rows[0].Borrows)
	for i, r := range run.Rows {
		require.Equal(t, r.Wants, r.Gets+r.Rejected+r.Dropped+r.Expired+r.Queued, r.Path)
		require.Equal(t, r.Own, r.Gets-r.Borrows, r.Path)
		require.Equal(t, r.Wants, total(r.Series.Wants), r.Path)
		require.Equal(t, r.Gets, total(r.Series.Gets), r.Path)
		require.GreaterOrEqual(t, r.Queued, int64(0), r.Path)
		if r.Leaf {
			continue
		}
		var sum result.Row
		for _, c := range run.Rows[i+1:] {
			if c.Depth <= r.Depth {
				break
			}
			if c.Depth == r.Depth+1 {
				sum.Wants += c.Wants
				sum.Gets += c.Gets
				sum.Queued += c.Queued
				sum.Dropped += c.Dropped
				sum.Expired += c.Expired
				sum.Borrows += c.Borrows
			}
		}
		require.Equal(t, [5]int64{r.Wants, r.Gets, r.Queued, r.Dropped, r.Expired}, [5]int64{sum.Wants, sum.Gets, sum.Queued, sum.Dropped, sum.Expired}, "below %s", r.Path)
		require.Equal(t, r.Lends+r.Borrows, sum.Borrows, "below %s", r.Path)
	}
}
