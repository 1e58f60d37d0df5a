package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tokensTree is for a trace of two services that share a budget of tokens.
const tokensTree = `tree: llm
unit: tokens
global:
  rate: 16000/s
  children:
    conv: {rate: 9000/s, ceil: 16000/s, burst: 15000}
    code: {rate: 6000/s, ceil: 12000/s, burst: 4000}
`

// Recorded traffic: the numbers add up, to the last line of the file.
func TestRecordedTraffic(t *testing.T) {
	data, err := filepath.Abs("../../../shared/data")
	require.NoError(t, err)
	accessLog, tokens := filepath.Join(data, "access.log"), filepath.Join(data, "llm_tokens.csv")
	for _, path := range []string{accessLog, tokens} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("no recorded traffic here: %v", err)
		}
	}
	folder(t, map[string]string{"tokens.yaml": tokensTree})
	replay := func(args ...string) (decoded, string) {
		o := htbsim(t.Context(), append([]string{"run", "--json", "-"}, args...)...)
		require.Equal(t, exitOK, o.code, o.stderr)
		d := decode(t, o.stdout)
		for path, c := range d.Classes {
			require.Equal(t, c.Wants, c.Gets+c.Rejected, path)
		}
		return d, o.stderr
	}

	d, _ := replay("--trace", accessLog)
	require.Equal(t, int64(strings.Count(read(t, accessLog), "\n")), d.Classes["global"].Wants)
	require.Len(t, d.Classes, 4+20+1, "every class, the top clients and the rest")
	require.Greater(t, d.Seconds, 40*3600.0)
	require.LessOrEqual(t, d.Seconds/d.Step, 1000.0)

	total, wants := int64(0), map[string]int64{}
	for _, line := range strings.Split(strings.TrimSpace(read(t, tokens)), "\n")[1:] {
		f := strings.Split(line, ",")
		cost, err := strconv.ParseInt(f[2], 10, 64)
		require.NoError(t, err)
		total += cost
		wants[f[1]] += cost
	}
	d, notes := replay("--trace", tokens, "--tree", "tokens.yaml")
	require.Equal(t, total, d.Classes["global"].Wants)
	require.Equal(t, wants["conv"], d.Classes["conv"].Wants)
	require.Equal(t, wants["code"], d.Classes["code"].Wants)
	require.Equal(t, 1, strings.Count(notes, "more than can ever pass"), "one message: %s", notes)
	require.Contains(t, notes, `over the cburst 4000 of "code"`)

	d, _ = replay("--trace", tokens, "--map", "free")
	require.Equal(t, wants["conv"], d.Classes["free/conv"].Wants)
}

// clientsTrace writes a trace of an hour's requests, by clients some of which ask
// far more often than others.
func clientsTrace(t *testing.T, path string, requests, clients int) {
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "time,class,cost")
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.05, 20, uint64(clients-1))
	for i := range requests {
		fmt.Fprintf(w, "%.4f,client-%d,%d\n", 3600*float64(i)/float64(requests), zipf.Uint64(), 1+random.IntN(3))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
}

// watched is a context that, being asked now and then whether it has ended, looks
// how much memory is in use.
type watched struct {
	context.Context
	asked int
	peak  uint64
}

func (w *watched) Err() error {
	if w.asked++; w.asked%8 == 0 {
		w.peak = max(w.peak, heap())
	}
	return w.Context.Err()
}

// heap returns how much memory is in use, garbage apart.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const clientsTree = `tree: big
global:
  rate: 60/s
  children:
    "*": {rate: RATE, ceil: 60/s, burst: 5}
`

// Many clients cost no more memory than few, neither while running nor in the
// result: what is kept is those that were busy just now, and the top.
func TestMemory(t *testing.T) {
	folder(t, map[string]string{
		"tree.yaml": strings.Replace(clientsTree, "RATE", "1/s", 1),
		"slow.yaml": strings.Replace(clientsTree, "RATE", "1/h", 1), // whose buckets are not full again before the end
	})
	clientsTrace(t, "many.csv", 200_000, 50_000)
	clientsTrace(t, "few.csv", 200_000, 500)
	peak := func(tree, trace string) uint64 {
		before := heap()
		ctx := &watched{Context: t.Context()}
		o := htbsim(ctx, "run", "--tree", tree, "--trace", trace, "--quiet", "--json", "out.json", "--step", "10s")
		require.Equal(t, exitOK, o.code, o.stderr)
		require.Greater(t, ctx.asked, 48, "it was watched")
		d := decode(t, read(t, "out.json"))
		require.Len(t, d.Classes, 1+20+1)
		if after := heap(); after > before {
			require.Less(t, after-before, uint64(2<<20), "after the run")
		}
		return ctx.peak - min(before, ctx.peak)
	}
	few, many := peak("tree.yaml", "few.csv"), peak("tree.yaml", "many.csv")
	t.Logf("peak with 500 clients %d KiB, with 50,000 clients %d KiB", few>>10, many>>10)
	require.Less(t, many, few+few/2+2<<20)
	slow := peak("slow.yaml", "many.csv")
	t.Logf("peak with 50,000 clients none of which can be dropped %d KiB", slow>>10)
	require.Greater(t, slow, 2*many, "the measure sees memory that grows")
}
