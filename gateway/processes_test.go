package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
)

// orders is what a process of these tests is to do, from the environment of it.
const orders = "SLUICE_TEST_GATEWAY"

// order is for a gateway in a process of its own.
type order struct {
	Socket  string
	Start   time.Time
	Phase   time.Duration // each of Loads lasts so long
	Loads   []float64     // requests per second
	Burst   int64
	Seed    uint64
	Exhaust string // instead: use up the burst of this client, say so and hang
}

// report is what it did.
type report struct {
	Admitted []int64 // by step since Start
	Wanted   []int64 // by phase
	Stats    Stats
}

const (
	step        = 10 * time.Millisecond
	sharedRate  = 2000
	sharedEvery = 100 * time.Millisecond
)

func TestMain(m *testing.M) {
	if text := os.Getenv(orders); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: o.Socket, ContextTimeoutEnabled: true})
	ctx := context.Background()
	if o.Exhaust != "" {
		g, err := New(ctx, clients(), client, Options{Timeout: time.Second})
		if err != nil {
			return err
		}
		for {
			d, err := g.Allow(ctx, 1, o.Exhaust)
			if err != nil {
				return err
			}
			if !d.Allowed {
				fmt.Println("exhausted")
				select {}
			}
		}
	}
	g, err := New(ctx, htb.Spec{Rate: algo.PerSecond(sharedRate), Burst: o.Burst, Sync: sharedEvery}, client, Options{})
	if err != nil {
		return err
	}
	rep := report{
		Admitted: make([]int64, time.Duration(len(o.Loads))*o.Phase/step+1),
		Wanted:   make([]int64, len(o.Loads)),
	}
	r := rand.New(rand.NewPCG(o.Seed, 0))
	time.Sleep(time.Until(o.Start))
	for phase, load := range o.Loads {
		begin, due := time.Duration(phase)*o.Phase, time.Duration(phase)*o.Phase
		for {
			due += time.Duration(r.ExpFloat64() / load * float64(time.Second))
			if due >= begin+o.Phase {
				break
			}
			time.Sleep(time.Until(o.Start.Add(due)))
			d, err := g.Allow(ctx, 1)
			if err != nil {
				return err
			}
			rep.Wanted[phase]++
			if at := int(time.Since(o.Start) / step); d.Allowed {
				rep.Admitted[min(at, len(rep.Admitted)-1)]++
			}
		}
	}
	rep.Stats = g.Stats()
	return json.NewEncoder(os.Stdout).Encode(rep)
}

// clients is a tree of clients with 10 requests a day each.
func clients() htb.Spec {
	day, err := algo.NewRate(10, 24*time.Hour)
	if err != nil {
		panic(err)
	}
	return htb.Spec{Rate: algo.PerSecond(1000), Children: []htb.Spec{{Name: "*", Rate: day, Burst: 10, Remote: true}}}
}

func send(t testing.TB, o order) *exec.Cmd {
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), orders+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// Four processes share a limit of 2000/s. One has five times the load of each other, and
// then another has.
func TestFourProcessesShareALimit(t *testing.T) {
	t.Parallel()
	const gateways, phase, burst = 4, 10 * time.Second, 200
	s := redistest.Run(t)
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	begin := time.Now().Add(time.Second)
	for g := range gateways {
		loads := []float64{500, 500}
		if g == 0 || g == gateways-1 {
			loads[g/(gateways-1)] = 2500
		}
		cmd, out := send(t, order{Socket: s.Socket, Start: begin, Phase: phase, Loads: loads, Burst: burst, Seed: uint64(g)}), &strings.Builder{}
		cmd.Stdout = out
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	all := make([]int64, 2*phase/step+1)
	var total, calls, wanted int64
	for g := range cmds {
		require.NoError(t, cmds[g].Wait())
		var rep report
		require.NoError(t, json.Unmarshal([]byte(outs[g].String()), &rep), outs[g].String())
		var got [2]int64
		for i, n := range rep.Admitted {
			all[i] += n
			total += n
			got[min(1, i/int(phase/step))] += n
		}
		calls += rep.Stats.Exchanges + rep.Stats.Asked + rep.Stats.Heartbeats
		for p, n := range rep.Wanted {
			wanted += n
			floor := min(float64(n), .9*sharedRate/gateways*phase.Seconds())
			assert.GreaterOrEqual(t, float64(got[p]), .98*floor, "gateway %d in phase %d", g, p)
		}
		t.Logf("gateway %d: wanted %v, got %v", g, rep.Wanted, got)
		assert.Less(t, rep.Stats.Failed, rep.Stats.Exchanges/10) // a busy machine
	}
	over, worst := 0., 0.
	for _, n := range all {
		over = max(0, over) + float64(n)
		worst = max(worst, over-burst-sharedRate*step.Seconds())
		over -= sharedRate * step.Seconds()
	}
	seconds := 2 * phase.Seconds()
	bound := (gateways-1)*burst + gateways*sharedRate*sharedEvery.Seconds()
	t.Logf("%d of %.0f; the worst window was over by %.0f, the bound is %.0f; %.4f calls a decision", total, sharedRate*seconds, worst, bound, float64(calls)/float64(wanted))
	assert.LessOrEqual(t, worst, bound)
	assert.GreaterOrEqual(t, float64(total), .95*sharedRate*seconds)
	assert.LessOrEqual(t, float64(total), 1.01*sharedRate*seconds+burst+bound)
	assert.Less(t, float64(calls)/float64(wanted), .02)
}

// A client that has used up its burst has done so in the next process, too, even if the
// first was killed.
func TestAKilledProcessLeavesTheQuota(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t)
	cmd := send(t, order{Socket: s.Socket, Exhaust: "alice"})
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "exhausted\n", line)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed, as it should be

	g := start(t, clients(), connect(t, s), nil)
	d, err := g.Allow(context.Background(), 1, "alice")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.False(t, d.Outage)
	d, err = g.Allow(context.Background(), 1, "bob")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// A server that has lost its data costs one burst, no more.
func TestLostDataCostsABurst(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *redistest.Server){
		"flushed": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Connect(t, nil).FlushAll(context.Background()).Err())
		},
		"restarted": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Kill())
			require.NoError(t, s.Start())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t)
			g := start(t, clients(), connect(t, s), nil)
			admitted := func() (n int) {
				for range 50 {
					d, err := g.Allow(context.Background(), 1, "alice")
					require.NoError(t, err)
					if d.Allowed && !d.Outage {
						n++
					}
				}
				return n
			}
			require.Equal(t, 10, admitted())
			lose(t, s)
			require.LessOrEqual(t, admitted(), 10)
			require.Zero(t, admitted())
		})
	}
}
