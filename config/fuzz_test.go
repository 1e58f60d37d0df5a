package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quick is how long a reader may take for a file that a fuzzer makes, on a
// machine that is busy with other fuzzers.
const quick = 5 * time.Second

// FuzzTree holds that every file is either taken, with nothing in it that htb
// refuses, or refused with mistakes that have a file and a line.
func FuzzTree(f *testing.F) {
	for _, list := range []map[string]string{goodTrees, badTrees, unseen} {
		for _, file := range list {
			f.Add([]byte(file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		file, err := Parse("t.yaml", data)
		require.Less(t, time.Since(start), quick)
		if err != nil {
			require.Nil(t, file)
			requireErrors(t, err)
			return
		}
		for _, m := range file.Root.Check() {
			require.True(t, m.Warning, "%v", m)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add(ExampleLoad, "requests")
	f.Add([]byte("duration: 1s\nflows:\n  - {class: '*', clients: 3, zipf: 1, arrivals: burst, at: 0s, count: 1, over: 1s, cost: {min: 1, max: 2}}"), "")
	f.Add([]byte("duration: 1s\nflows:\n  - {class: a, arrivals: onoff, on: 1s, off: 1s, rate: 1mbit, service: {exponential: 1s}}"), Bytes)
	f.Fuzz(func(t *testing.T, data []byte, unit string) {
		start := time.Now()
		l, err := ParseLoad("l.yaml", data, unit)
		require.Less(t, time.Since(start), quick)
		if err != nil {
			require.Nil(t, l)
			requireErrors(t, err)
			return
		}
		require.NotEmpty(t, l.Flows)
		for _, w := range l.Flows {
			require.Less(t, w.From, w.To)
			require.LessOrEqual(t, w.To, l.Duration)
			require.GreaterOrEqual(t, w.Cost.Min, int64(1))
			require.GreaterOrEqual(t, w.Cost.Max, w.Cost.Min)
			require.Equal(t, w.Clients > 0, len(w.Class) > 0 && w.Class[len(w.Class)-1] == "*")
			require.Equal(t, w.Rate.IsZero(), w.Arrivals == Backlogged || w.Arrivals == Burst)
		}
	})
}

// FuzzRate holds that a rate that is read is printed in a way that reads back.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"1000/s", "17/30s", "1/1m30s", "10k/s", "8mbit", "512KiB/s", "1/year", "2.5/µs", "5/60", "10Mb/s"} {
		f.Add(s, Bytes)
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, s, unit string) {
		r, count, err := parseRate(s, unit)
		if err != nil {
			require.True(t, r.IsZero())
			require.NotEmpty(t, err.Error())
			return
		}
		require.Positive(t, count.Sign())
		back, err := ParseRate(r.String(), "")
		require.NoError(t, err)
		require.Equal(t, r, back)
		_, _ = ParseSize(s, unit)
		_, _ = ParseDuration(s)
	})
}
