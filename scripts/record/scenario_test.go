package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
)

const exampleTC = `class add dev eth0 parent 1: classid 1:1 htb rate 8mbit burst 2000 cburst 2000 quantum 1000
class add dev eth0 parent 1:1 classid 1:2 htb rate 3200kbit ceil 8mbit burst 2000 cburst 2000 quantum 1000
class add dev eth0 parent 1:2 classid 1:1a htb rate 2400kbit ceil 8mbit burst 2000 cburst 2000 prio 0 quantum 3000
class add dev eth0 parent 1:1 classid 1:10 htb rate 800kbit ceil 1000001bit prio 3
`

const exampleLoad = `duration: 1s
flows:
  - {class: "1:1a", to: 500ms, arrivals: backlogged, cost: 1000}
  - {class: "1:10", arrivals: constant, rate: 50000/s, cost: 500}
`

// written puts both into files.
func written(t *testing.T, tc, load string) (string, string) {
	t.Helper()
	dir := t.TempDir()
	paths := [...]string{filepath.Join(dir, "example.tc"), filepath.Join(dir, "example.load.yaml")}
	for i, text := range [...]string{tc, load} {
		require.NoError(t, os.WriteFile(paths[i], []byte(text), 0o644))
	}
	return paths[0], paths[1]
}

func example(t *testing.T) *scenario {
	t.Helper()
	tc, load := written(t, exampleTC, exampleLoad)
	var log strings.Builder
	s, err := readScenario(tc, load, &log)
	require.NoError(t, err)
	require.Contains(t, log.String(), "example.tc:4: 1:10: ceil 1000001bit is no whole number")
	return s
}

func TestScenario(t *testing.T) {
	s := example(t)
	require.Equal(t, "example", s.name)
	require.Equal(t, time.Second, s.duration)
	require.Equal(t, 1e6, s.link)
	require.Equal(t, 1500, s.mtu)
	require.Len(t, s.senders, 2)
	require.Equal(t, "1:1a", s.senders[0].leaf.Name)
	require.Equal(t, uint32(0x1001a), s.senders[0].leaf.number())
	require.Equal(t, uint32(0x10010), s.senders[1].leaf.number())
}

// Every number stands there, and parents come before their children.
func TestBatch(t *testing.T) {
	require.Equal(t, `qdisc add dev x0 root handle 1: htb default 0
class add dev x0 parent 1: classid 1:1 htb rate 1000000bps ceil 1000000bps burst 2000 cburst 2000 prio 0 quantum 1000
class add dev x0 parent 1:1 classid 1:2 htb rate 400000bps ceil 1000000bps burst 2000 cburst 2000 prio 0 quantum 1000
class add dev x0 parent 1:2 classid 1:1a htb rate 300000bps ceil 1000000bps burst 2000 cburst 2000 prio 0 quantum 3000
class add dev x0 parent 1:1 classid 1:10 htb rate 100000bps ceil 125000bps burst 1700 cburst 1725 prio 3 quantum 10000
qdisc add dev x0 parent 1:1a pfifo limit 1000
qdisc add dev x0 parent 1:10 pfifo limit 1000
`, example(t).batch("x0"))
}

func TestBadScenarios(t *testing.T) {
	tc, load := written(t, exampleTC, `duration: 1s
flows:
  - {class: "1:99", arrivals: backlogged, cost: 1000}
  - {class: "1:2", arrivals: backlogged, cost: 1000}
  - {class: "1:2/1:1a", arrivals: backlogged, cost: 1000}
  - {class: "1:3/1:1a", arrivals: backlogged, cost: 1000}
  - {class: "1:10", arrivals: backlogged}
  - {class: "1:10", arrivals: backlogged, cost: {min: 42, max: 65536}}
  - {class: "1:10/*", clients: 3, arrivals: backlogged, cost: 1000}
`)
	_, err := readScenario(tc, load, io.Discard)
	require.ErrorAs(t, err, &config.Errors{})
	require.Equal(t, strings.ReplaceAll(`L:3: flow 1: the tree has no class "1:99": write the classid of a leaf of it, such as 1:10
L:4: flow 2: class 1:2 has children: write the classid of a leaf below it
L:6: flow 4: class "1:3/1:1a" is "1:2/1:1a" in the tree: write 1:1a, which is enough
L:7: flow 5: costs from 1 to 1 are no sizes of packets: write 42 to 65535
L:8: flow 6: costs from 42 to 65536 are no sizes of packets: write 42 to 65535
L:9: flow 7: the tree has no class "*": write the classid of a leaf of it, such as 1:10`, "L", load), err.Error())

	tc, load = written(t, "class\n", "duration: x\n")
	_, err = readScenario(tc, load, io.Discard)
	require.ErrorContains(t, err, "example.tc:1: ")
	require.ErrorContains(t, err, "example.load.yaml:1: ")
	_, err = readScenario(filepath.Join(t.TempDir(), "none.tc"), load, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Packets above the usual size get a cable that carries them.
func TestLargePackets(t *testing.T) {
	tc, load := written(t, exampleTC, "duration: 1s\nflows: [{class: '1:10', arrivals: backlogged, cost: 9014}]")
	s, err := readScenario(tc, load, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 9000, s.mtu)
}

func TestSchedules(t *testing.T) {
	for _, step := range []struct {
		flow string
		want []time.Duration // in milliseconds
	}{
		{"from: 10ms, to: 60ms, arrivals: constant, rate: 50000/s, cost: 1000", []time.Duration{10, 30, 50}},
		{"to: 60ms, arrivals: onoff, on: 15ms, off: 20ms, rate: 100000/s, cost: 1000", []time.Duration{0, 10, 35, 45}},
		{"arrivals: burst, at: 20ms, count: 4, over: 10ms, cost: 100", []time.Duration{20, 22, 25, 27}},
	} {
		tc, load := written(t, exampleTC, "duration: 100ms\nflows: [{class: '1:10', "+step.flow+"}]")
		s, err := readScenario(tc, load, io.Discard)
		require.NoError(t, err)
		var got []time.Duration
		for x := newSchedule(s.senders[0].Flow, 1, 0); !x.over(); x.next() {
			require.Equal(t, s.senders[0].Cost.Min, x.cost)
			got = append(got, x.at/time.Millisecond)
		}
		require.Equal(t, step.want, got, step.flow)
	}

	tc, load := written(t, exampleTC, "duration: 200s\nflows: [{class: '1:10', arrivals: poisson, rate: 50000/s, cost: {min: 100, max: 300}}]")
	s, err := readScenario(tc, load, io.Discard)
	require.NoError(t, err)
	last, n, bytes := time.Duration(0), 0, int64(0)
	for x := newSchedule(s.senders[0].Flow, 1, 0); !x.over(); x.next() {
		require.GreaterOrEqual(t, x.at, last)
		require.True(t, x.cost >= 100 && x.cost <= 300)
		last, n, bytes = x.at, n+1, bytes+x.cost
	}
	require.InDelta(t, 50_000, n, 1000)
	require.InDelta(t, 10_000_000, bytes, 200_000)
}
