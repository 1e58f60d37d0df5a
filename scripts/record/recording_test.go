package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	s := make(series, 3)
	for _, step := range []struct {
		after time.Duration
		want  series
	}{
		{-1, series{0, 0, 0}},
		{0, series{10, 0, 0}},
		{time.Second - 1, series{20, 0, 0}},
		{time.Second, series{20, 10, 0}},
		{3*time.Second - 1, series{20, 10, 10}},
		{3 * time.Second, series{20, 10, 10}},
	} {
		s.count(step.after, time.Second, 10)
		require.Equal(t, step.want, s)
	}
}

// The last step counts as one where it is a part of one.
func TestNewSeries(t *testing.T) {
	require.Len(t, newSeries(&scenario{duration: 2 * time.Second, step: time.Second}), 2)
	require.Len(t, newSeries(&scenario{duration: 2*time.Second + 1, step: time.Second}), 3)
}

// What is written has every class and every step, and reads back.
func TestRecordingJSON(t *testing.T) {
	r := newRecording(example(t))
	r.Kernel = "6.1.2"
	r.Leaves["1:10"][0] = 500
	r.Packets["1:1"] = packets{3, 0}
	data, err := json.MarshalIndent(r, "", " ")
	require.NoError(t, err)
	require.Equal(t, `{
 "name": "example",
 "kernel": "6.1.2",
 "step": 1,
 "seconds": 1,
 "unit": "bytes",
 "leaves": {
  "1:10": [
   500
  ],
  "1:1a": [
   0
  ]
 },
 "packets": {
  "1:1": {
   "lended": 3,
   "borrowed": 0
  }
 }
}`, string(data))
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	back, err := readRecording(path)
	require.NoError(t, err)
	require.Equal(t, r, back)
	require.NoError(t, os.WriteFile(path, []byte("[]"), 0o644))
	_, err = readRecording(path)
	require.ErrorContains(t, err, "r.json is no recording")
}

func TestBetter(t *testing.T) {
	of := func(bytes int64, late time.Duration) *recording {
		return &recording{Leaves: map[string][]int64{"1:10": {bytes, 1}}, late: late}
	}
	require.True(t, of(5, 2).better(of(4, 1)))
	require.False(t, of(4, 1).better(of(5, 2)))
	require.True(t, of(5, 1).better(of(5, 2)))
	require.False(t, of(5, 2).better(of(5, 2)))
}

func TestCompare(t *testing.T) {
	var b strings.Builder
	now := &recording{Step: 1, Seconds: 2, Leaves: map[string][]int64{"1:100": {500, 500}, "1:10": {0, 110}}}
	then := &recording{Step: 1, Seconds: 2, Leaves: map[string][]int64{"1:100": {520, 500}, "1:10": {0, 100}}}
	now.compare(&b, then, 1000)
	require.Equal(t, `leaf            earlier          now   of link   step at most
1:10                100          110    +0.50%          1.00%
1:100              1020         1000    -1.00%          2.00%
`, b.String())
}

func TestArguments(t *testing.T) {
	for _, args := range []string{"", "--tc x --load y", "--tc x --load y --out z more", "--tc x --load y --out z --runs 0",
		"--tc x --load y --out z --step 1us", "--tc x --load y --out z --backlog 0", "--no-such-flag",
		"--tc x --load y --out no-such-folder/z", "--tc no-such-file --load y --out z"} {
		require.Error(t, run(context.Background(), strings.Fields(args), new(strings.Builder)), args)
	}
}
