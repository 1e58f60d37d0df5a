package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counted is a context that ends when it has been asked so many times whether it
// has: in the middle of a run, at the same place each time.
type counted struct {
	context.Context
	asked, most int64
}

func (c *counted) Err() error {
	if atomic.AddInt64(&c.asked, 1) > c.most {
		return context.Canceled
	}
	return c.Context.Err()
}

// longLoad takes a hundred thousand decisions.
const longLoad = `duration: 5000s
flows:
  - {class: acme, arrivals: poisson, rate: 20/s}
`

// lines is a CSV trace of n requests at 20 a second.
func lines(n int) string {
	var b strings.Builder
	b.WriteString("time,class,cost\n")
	for i := range n {
		fmt.Fprintf(&b, "%.2f,acme,1\n", float64(i)*0.05)
	}
	return b.String()
}

// Ctrl-C in the middle of a run gives what was measured until then, whole, and says
// that it is not all.
func TestInterrupt(t *testing.T) {
	folder(t, map[string]string{"tree.yaml": goodTree, "load.yaml": longLoad, "trace.csv": lines(100_000)})
	for _, traffic := range []string{"--load load.yaml", "--trace trace.csv"} {
		t.Run(traffic, func(t *testing.T) {
			args := append(strings.Fields("run --tree tree.yaml --step 100s --csv out.csv --plot out.svg --json out.json"), strings.Fields(traffic)...)
			whole := &counted{t.Context(), 0, 1 << 60}
			o := htbsim(whole, args...)
			require.Equal(t, exitOK, o.code, o.stderr)
			require.NotContains(t, o.stdout, "interrupted")
			all := decode(t, read(t, "out.json"))

			ctx := func() context.Context { return &counted{t.Context(), 0, whole.asked * 3 / 4} }
			o = htbsim(ctx(), args...)
			require.Equal(t, exitOK, o.code, o.stderr)
			require.Empty(t, o.stderr)
			require.Contains(t, o.stdout, "note: interrupted: this is what was measured until ")
			part := decode(t, read(t, "out.json"))
			require.Greater(t, part.Seconds, 0.0)
			require.Less(t, part.Seconds, all.Seconds)
			require.Less(t, part.Classes["acme"].Wants, all.Classes["acme"].Wants)
			require.Positive(t, part.Classes["acme"].Wants)
			require.Len(t, strings.Split(strings.TrimSpace(read(t, "out.csv")), "\n"), 1+len(part.Classes)*len(part.Classes["acme"].Series.Gets))
			require.True(t, strings.HasSuffix(strings.TrimSpace(read(t, "out.svg")), "</svg>"))
			require.Len(t, contents(t), 6, "nothing else is left")

			// half a result does not pass for a whole one where the table is not seen
			for _, quiet := range []string{"--quiet", "--json=-"} {
				o = htbsim(ctx(), append(args, quiet)...)
				require.Equal(t, exitOK, o.code, o.stderr)
				require.Contains(t, o.stderr, "note: interrupted: this is what was measured until ", quiet)
			}
		})
	}
}

// A run interrupted before it began is an error, and leaves no file.
func TestInterruptBeforeStart(t *testing.T) {
	files := map[string]string{"tree.yaml": goodTree, "load.yaml": goodLoad, "trace.csv": "time,class,cost\n0,acme,1\n", "old.json": "old\n"}
	folder(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, traffic := range []string{"--load load.yaml", "--trace trace.csv"} {
		o := htbsim(ctx, append(strings.Fields("run --tree tree.yaml --json old.json --csv new.csv --plot new.svg"), strings.Fields(traffic)...)...)
		require.Equal(t, outcome{exitInput, "", "htbsim: interrupted before the run began: nothing is written\n"}, o)
		require.Equal(t, files, contents(t))
	}
}

// The program itself, and a real signal.
func TestInterruptSignal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupt can be sent to a process here")
	}
	folder(t, map[string]string{"tree.yaml": goodTree, "load.yaml": strings.Replace(longLoad, "5000s", "20000000s", 1)})
	cmd := exec.Command(os.Args[0], "run", "--tree", "tree.yaml", "--step", "1h", "--json", "out.json")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // the output is opened just before the run begins
		m, _ := filepath.Glob(".out.json.*")
		return len(m) > 0
	}, 10*time.Second, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Contains(t, stdout.String(), "note: interrupted")
	decode(t, read(t, "out.json"))
	require.Len(t, contents(t), 3)
}
