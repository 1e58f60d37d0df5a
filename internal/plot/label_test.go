package plot

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"free/alice":   "free/alice",
		"naïve 長い":     "naïve 長い",
		"a\x00b\n\x7f": `a\x00b\n\x7f`,
		"\u202eevil":   `\u202eevil`,
		"bad\xff":      "bad\uFFFD",
		"\ufffe":       `\ufffe`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, name := range []string{"a", "free/client-00.eu-west-1.customers.example.com", strings.Repeat("長", 200)} {
		for _, room := range []float64{20, 60, 150, 1e4} {
			got := smallPen.shorten(name, vg.Length(room))
			if smallPen.width(got) > vg.Length(room) || !utf8.ValidString(got) {
				t.Errorf("%q does not fit %g", got, room)
			}
			if got != name && !strings.Contains(got, "…") {
				t.Errorf("%q does not show that it was cut", got)
			}
		}
	}
	if got := smallPen.shorten("free/client-00.eu-west-1.example.com", 100); !strings.HasPrefix(got, "free/") || !strings.HasSuffix(got, ".com") {
		t.Errorf("%q lost an end", got)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 400: "400", 5.0 / 18: "0.2778", 1200: "1200", 9999.9: "10000", 12345: "12.35k", 1e6: "1M", 2.5e9: "2.5G", 1e12: "1T", -1: "0",
	} {
		if got := compact(v); got != want {
			t.Errorf("compact(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := group(v); got != want {
			t.Errorf("group(%d) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.05: "0.05", 99.5: "99.5", 1234.4: "1,234", math.Inf(1): "0"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct{ least, per, want float64 }{
		{0.3, 1, 0.5}, {1, 1, 1}, {1.0000000001, 1, 1}, {7, 60, 10}, {3, 3600, 3}, {4, 3600, 6}, {400, 3600, 500}, {0.2, 3600, 0.2},
	} {
		if got := timeStep(test.least, test.per); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("timeStep(%v, %v) = %v, want %v", test.least, test.per, got, test.want)
		}
	}
	if got := ticks(1, 0.25); len(got) != 5 {
		t.Errorf("ticks(1, 0.25) = %v", got)
	}
}
