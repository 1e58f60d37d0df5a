package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sharedTree = `tree: api
redis: {addr: "localhost:1"} # nothing listens there
global:
  rate: 100/s
  sync: 100ms
  children:
    a: {rate: 50/s, ceil: 100/s, store: redis}
    b: {rate: 50/s, burst: 60, sync: 1s}
`
	sharedLoad = `duration: 10s
flows:
  - {class: a, arrivals: backlogged}
  - {class: b, arrivals: backlogged, from: 3s, to: 7s}
`
	sharedNote = "store and sync are simulated as if there were one gateway and its store always answered at once"
)

// What gateways share runs as it would on one of them, and needs no server.
func TestRunShared(t *testing.T) {
	plain := strings.NewReplacer("  sync: 100ms\n", "", ", store: redis", "", ", sync: 1s", "").Replace(sharedTree)
	require.NotContains(t, strings.ReplaceAll(plain, "redis:", ""), "redis")
	folder(t, map[string]string{"shared.yaml": sharedTree, "plain.yaml": plain, "load.yaml": sharedLoad})
	for _, mode := range []string{"police", "shape"} {
		shared := works(t, "run", "--tree", "shared.yaml", "--mode", mode)
		require.Equal(t, 1, strings.Count(shared, sharedNote))
		alone := works(t, "run", "--tree", "plain.yaml", "--mode", mode)
		require.NotContains(t, alone, sharedNote)
		var left []string
		for line := range strings.Lines(shared) {
			if !strings.Contains(line, sharedNote) {
				left = append(left, line)
			}
		}
		require.Equal(t, strings.TrimSpace(alone), strings.TrimSpace(strings.Join(left, "")))
	}
	o := htbsim(t.Context(), "run", "--tree", "shared.yaml", "--quiet")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stderr, sharedNote)
}

// check says where each class is kept.
func TestCheckShared(t *testing.T) {
	folder(t, map[string]string{"shared.yaml": sharedTree})
	golden(t, "good/check-shared.golden", works(t, "check", "--tree", "shared.yaml"))
}
