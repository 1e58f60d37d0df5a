package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParsePackets(t *testing.T) {
	require.Equal(t, map[string]packets{"1:1": {12, 0}, "1:1a": {3, 400}}, parsePackets(`class htb 1:1 root rate 8Mbit ceil 8Mbit burst 2000b cburst 2000b
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
 lended: 12 borrowed: 0 giants: 0
 tokens: 25000 ctokens: 25000

class htb 1:1a parent 1:1 leaf 8001: prio 7 rate 1234Kbit ceil 1Mbit burst 1999b cburst 384b
 lended: 3 borrowed: 400 giants: 0
 tokens: 202500 ctokens: 48000
`))
	require.Empty(t, parsePackets(""))
}

// equipped skips where there is no lab to be had, and says why.
func equipped(t *testing.T, s *scenario) *lab {
	t.Helper()
	l, err := newLab(s)
	if errors.As(err, &missing{}) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

// What tc has in the end is what was read from the file.
func TestKernelHasTheTree(t *testing.T) {
	s := example(t)
	l := equipped(t, s)
	out, err := l.send.feed("", "tc", "-d", "class", "show", "dev", sendDev)
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	number := func(line, exp string) int64 {
		m := regexp.MustCompile(exp).FindStringSubmatch(line)
		require.NotNil(t, m, "%s in %s", exp, line)
		n, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		return n
	}
	for _, c := range s.classes {
		found := false
		for _, line := range lines {
			if !strings.HasPrefix(line, "class htb "+c.Name+" ") {
				continue
			}
			found = true
			require.InDelta(t, c.Burst, number(line, ` burst (\d+)b`), 1)
			require.InDelta(t, c.CBurst, number(line, ` cburst (\d+)b`), 1)
			require.Equal(t, c.Rate.Over(time.Second)*8, number(strings.NewReplacer("Kbit", "000", "Mbit", "000000", "bit", "").Replace(line), ` rate (\d+)`))
			if c.leaf {
				require.Equal(t, c.Quantum, number(line, ` quantum (\d+)`))
				require.Equal(t, int64(c.Prio), number(line, ` prio (\d+)`))
				require.Contains(t, line, " parent "+c.parent+" ")
			}
		}
		require.True(t, found, "no class %s in\n%s", c.Name, out)
	}
}

// A short scenario: no leaf is above its ceil, and every packet is in both counts.
func TestRecord(t *testing.T) {
	equipped(t, example(t))
	tc, load := written(t, exampleTC, strings.ReplaceAll(exampleLoad, "to: 500ms, ", ""))
	out := filepath.Join(t.TempDir(), "out.json")
	var log strings.Builder
	args := fmt.Sprintf("--tc %s --load %s --out %s --against %s --step 100ms --runs 1", tc, load, out, out)
	require.ErrorIs(t, run(context.Background(), strings.Fields(args), &log), os.ErrNotExist)
	args = strings.Replace(args, "--against "+out, "", 1)
	require.NoError(t, run(context.Background(), strings.Fields(args), &log))
	require.Contains(t, log.String(), "run 1 of 1: ")
	r, err := readRecording(out)
	require.NoError(t, err)
	require.Equal(t, "example", r.Name)
	require.Regexp(t, `^\d+\.\d+`, r.Kernel)
	require.Len(t, r.Packets, 4)
	for id, most := range map[string]int64{"1:10": 125_000, "1:1a": 1_000_000} {
		series := r.Leaves[id]
		require.Len(t, series, 10)
		sum, size := int64(0), int64(1000)
		if id == "1:10" {
			size = 500
		}
		for i, n := range series {
			require.Zero(t, n%size)
			// cburst, a packet of debt, and one that was late before.
			require.LessOrEqual(t, n, most/10*int64(i+1)+2000+2*size)
			sum += n
		}
		require.Positive(t, sum)
		p := r.Packets[id]
		require.GreaterOrEqual(t, p.Lent+p.Borrowed, sum/size)
		require.LessOrEqual(t, p.Lent+p.Borrowed, sum/size+17)
	}
}

// Ctrl-C ends a recording, and nothing is written.
func TestInterrupt(t *testing.T) {
	equipped(t, example(t))
	tc, load := written(t, exampleTC, strings.ReplaceAll(exampleLoad, "duration: 1s", "duration: 1h"))
	out := filepath.Join(t.TempDir(), "out.json")
	ctx, stop := context.WithTimeoutCause(context.Background(), 300*time.Millisecond, context.Canceled)
	defer stop()
	start := time.Now()
	err := run(ctx, strings.Fields(fmt.Sprintf("--tc %s --load %s --out %s", tc, load, out)), new(strings.Builder))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(start), 30*time.Second)
	require.NoFileExists(t, out)
}

// The namespaces are nowhere to be found once closed.
func TestNothingIsLeft(t *testing.T) {
	l := equipped(t, example(t))
	path := l.recv.path
	require.FileExists(t, path)
	l.recv.close()
	l.recv = nil
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return os.IsNotExist(err)
	}, 10*time.Second, time.Millisecond)
}

// The process's first thread never ends, so nothing that is to end may run on it.
func TestNotOnTheFirstThread(t *testing.T) {
	for range 50 {
		threads := make(chan int, 20)
		hold := make(chan struct{})
		for range cap(threads) {
			onOwnThread(func() { threads <- syscall.Gettid(); <-hold })
		}
		for range cap(threads) {
			require.NotEqual(t, os.Getpid(), <-threads)
		}
		close(hold)
	}
}
