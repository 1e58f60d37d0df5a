package config

import (
	"math"
	"testing"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	const year = 365 * day
	for _, step := range []struct {
		text   string
		units  int64
		period time.Duration
	}{
		{"1000/s", 1000, time.Second},
		{"5000/h", 5000, time.Hour},
		{"2.5/s", 5, 2 * time.Second},
		{"0.1/s", 1, 10 * time.Second},
		{"17/30s", 17, 30 * time.Second},
		{"5/m", 5, time.Minute},
		{"5/min", 5, time.Minute},
		{"5/minute", 5, time.Minute},
		{"1/d", 1, day},
		{"1/day", 1, day},
		{"1/year", 1, year},
		{"3/y", 3, year},
		{"7/week", 7, 7 * day},
		{"3/7ns", 3, 7},
		{"5/100ms", 50, time.Second},
		{"5/1.5us", 10, 3 * time.Microsecond},
		{"1/1m30s", 1, 90 * time.Second},
		{"10k/s", 10_000, time.Second},
		{"10K/s", 10_000, time.Second},
		{"2M/s", 2_000_000, time.Second},
		{"1000G/s", 1_000_000_000_000, time.Second},
		{"1T/s", 1_000_000_000_000, time.Second},
		{"10MB/s", 10_000_000, time.Second},
		{"512KiB/s", 524_288, time.Second},
		{"512kiB/s", 524_288, time.Second},
		{"1B/h", 1, time.Hour},
		{"8mbit", 1_000_000, time.Second},
		{"8Mbit", 1_000_000, time.Second},
		{"8MBIT", 1_000_000, time.Second},
		{"8mbit/s", 1_000_000, time.Second},
		{"1gbit", 125_000_000, time.Second},
		{"300kbit", 37_500, time.Second},
		{"8000000bit", 1_000_000, time.Second},
		{"1bit", 1, 8 * time.Second},
		{"1.5mbit", 187_500, time.Second},
		{"1kibit", 128, time.Second},
		{"1mibit", 131_072, time.Second},
		{"10mbps", 10_000_000, time.Second},
		{"10kbps", 10_000, time.Second},
		{"10bps", 10, time.Second},
		{"1Kibps", 1024, time.Second},
		{"1tbit", 125_000_000_000, time.Second},
	} {
		got, err := ParseRate(step.text, Bytes)
		require.NoError(t, err, step.text)
		want, err := algo.NewRate(step.units, step.period)
		require.NoError(t, err, step.text)
		require.Equal(t, want, got, step.text)
	}
}

func TestParseRateMistakes(t *testing.T) {
	for _, step := range []struct{ text, unit, want string }{
		{"", "", `config: rate "" is empty: write such as 1000/s`},
		{"100", "", `config: rate "100" has no period: write 100/s`},
		{"10k", "", `has no period: write 10k/s`},
		{"10MB", Bytes, `has no period: write 10MB/s`},
		{"8mbit", "requests", "write unit: bytes at the top"},
		{"8B/s", "", "write unit: bytes at the top"},
		{"10Mb/s", Bytes, "may mean bits or bytes: write such as 10MB/s for bytes, 10mbit for bits"},
		{"10kb", Bytes, "may mean bits or bytes"},
		{"2m/s", "", "write M for a million"},
		{"5/60", "", "has a period without a unit: write 5/60s"},
		{"-5/s", "", "is negative"},
		{"0/s", "", "is no rate: write more than 0"},
		{"5/0s", "", "has a period of 0"},
		{"5/S", "", "has a period or a unit that is not known"},
		{"5/M", "", "has a period or a unit that is not known"},
		{"1e3/s", "", "has a period or a unit that is not known"},
		{"/s", "", "is no rate"},
		{".5/s", "", "is no rate"},
		{"1/2/s", "", "not known"},
		{"10mbps/s", Bytes, "not known"},
		{"0.99/year", "", "is below the smallest rate, 1/year"},
		{"1001G/s", "", "is above the largest rate, 1000G/s"},
		{"3.14159265358979323846264338327950288/s", "", "write fewer digits"},
		{"99999999999999999999999999999999999999999999999999999999999999999999/s", "", "too long"},
	} {
		_, err := ParseRate(step.text, step.unit)
		require.ErrorContains(t, err, step.want, "%q", step.text)
	}
}

// What algo prints reads back as the same rate, exactly.
func TestRatesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := algo.NewRate(rapid.Int64Range(1, math.MaxInt64).Draw(t, "units"), time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "period")))
		if err != nil {
			t.Skip(err)
		}
		back, err := ParseRate(r.String(), "")
		if err != nil || back != r {
			t.Fatalf("%v reads back as %v: %v", r, back, err)
		}
	})
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "2000": 2000, "10k": 10_000, "1.5k": 1500, "2M": 2_000_000, "2MB": 2_000_000, "64KiB": 65_536,
		"0.5KiB": 512, "9B": 9, "2.0": 2, "9223372036854775807": math.MaxInt64,
	} {
		got, err := ParseSize(text, Bytes)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"": "is empty", "0": "too little", "-5": "is negative", "2.5": "is not whole: write 3", "5/s": "is a rate",
		"16kbit": "is no number of bytes", "1e3": "is no number", "9223372036854775808": "more than can be counted",
		"0x10": "is no number", "1_000": "is no number", "10T10": "is no number", "5 k": "is no number",
	} {
		_, err := ParseSize(text, Bytes)
		require.ErrorContains(t, err, want, "%q", text)
	}
	_, err := ParseSize("1kB", "requests")
	require.ErrorContains(t, err, `config: size "1kB" is in bits or bytes`)
	_, err = ParseSize("many", "requests")
	require.ErrorContains(t, err, "write a whole number")
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"100ms": 100 * time.Millisecond, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute, "0s": 0, "1.5s": 1500 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"": "is empty", "5": "has no unit: write such as 5s", "0": "has no unit", "-5s": "is negative", "5d": "is no duration",
		"9999999h": "longer than can be counted", "s": "is no duration", "+5s": "is no duration",
	} {
		_, err := ParseDuration(text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestDidYouMean(t *testing.T) {
	names := []string{"rate", "burst", "ceil", "cburst", "maxWait", "max", "on", "at"}
	for word, want := range map[string]string{
		"rte": "rate", "Rate": "rate", "cel": "ceil", "ciel": "ceil", "max_wait": "maxWait", "max-wait": "maxWait",
		"MAX": "max", "bursts": "burst", "x": "", "name": "", "quota": "", "": "", "no": "on", "onn": "on",
	} {
		got := didYouMean(word, names)
		if want != "" {
			want = ` (did you mean "` + want + `"?)`
		}
		require.Equal(t, want, got, word)
	}
	require.Equal(t, 1, distance("abcd", "abdc"))
	require.Equal(t, 4, distance("", "abcd"))
	require.Equal(t, 3, distance("kitten", "sitting"))
}
