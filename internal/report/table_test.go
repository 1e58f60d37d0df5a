package report

import (
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file of testdata, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "look at it, then go test ./internal/report -update")
}

// sample is a run with names of every kind and numbers of every size.
func sample() *result.Run {
	row := func(path string, depth int, rate, ceil float64, wants, gets, borrows, lends int64, fair float64) result.Row {
		return result.Row{
			Path: path, Depth: depth, Rate: rate, Ceil: ceil,
			Wants: wants, Gets: gets, Rejected: wants - gets, Own: gets - borrows, Borrows: borrows, Lends: lends, Fair: fair,
			Series: result.Series{Wants: []int64{wants - 1, 1}, Gets: []int64{gets, 0}, Fair: []float64{fair / 3, fair - fair/3}},
		}
	}
	return &result.Run{
		Tree: "api", Mode: "police", Unit: "tokens", Seconds: 1.5, Step: 1,
		Rows: []result.Row{
			row("global", 0, 1e12, 1e12, 123456789012, 1234567, 0, 1000, 1234567.4),
			row("acme", 1, 1000.0/3, 0.000277, 12, 12, 0, 0, 12),
			row("租户甲", 1, 2.5, 2.5, 1000, 999, 99, 0, 1000),
			row("ångström", 1, 60.000000000000007, 99.96, 0, 0, 0, 0, 0),
			row("free", 1, 20, 50, 1, 0, 0, 0, 0),
			row("free/a,b \"c\"", 2, 1, 10, 3, 1, 1, 0, 0.5),
			row("free/\u202e\u009b31mred", 2, 1, 10, 2, 2, 0, 0, 1),
			row("free/"+strings.Repeat("long-", 20)+"end", 2, 1, 10, 2, 2, 0, 0, 1),
			row("free/"+strings.Repeat("長", 40), 2, 1, 10, 2, 2, 0, 0, 1),
			row("free/*", 2, 1, 10, 2, 2, 0, 0, 1),
		},
		Notes: []string{"the first", "the second"},
	}
}

func tableOf(t *testing.T, run *result.Run, look Look) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Table(&b, run, look))
	return b.String()
}

func TestTable(t *testing.T) {
	got := tableOf(t, sample(), Look{})
	golden(t, "table", got)
	lines := strings.Split(got, "\n")
	for i, line := range lines {
		require.Equal(t, strings.TrimRight(line, " "), line, "no blanks at the end of a line")
		if i > 2 && i < 3+len(sample().Rows) {
			require.Equal(t, text.StringWidth(lines[3]), text.StringWidth(line), "aligned, whatever the letters: %s", line)
		}
	}
}

// A narrow terminal gets fewer columns, not broken lines.
func TestTableNarrow(t *testing.T) {
	run := sample()
	full := tableOf(t, run, Look{})
	golden(t, "narrow", tableOf(t, run, Look{Width: 110}))
	require.Equal(t, full, tableOf(t, run, Look{Width: 1000}))
	columns := math.MaxInt
	for width := 200; width >= 90; width-- {
		got := tableOf(t, run, Look{Width: width})
		lines := strings.Split(got, "\n")
		for _, line := range lines[1 : 3+len(run.Rows)] {
			require.LessOrEqual(t, text.StringWidth(line), width)
		}
		n := len(strings.Fields(lines[1]))
		require.LessOrEqual(t, n, columns, "fewer columns, never more")
		require.Equal(t, n < 12, strings.Contains(got, "too wide for this terminal"))
		columns = n
	}
	require.Less(t, columns, 12)
	for _, column := range []string{"class", "wants", "gets", "borrows"} {
		require.Contains(t, tableOf(t, run, Look{Width: 1}), column)
	}
}

func TestTableColour(t *testing.T) {
	run := sample()
	plain, coloured := tableOf(t, run, Look{}), tableOf(t, run, Look{Colour: true})
	require.NotContains(t, plain, "\x1b")
	require.Contains(t, coloured, "\x1b[")
	require.Equal(t, plain, trimmed(text.StripEscape(coloured)), "colour changes nothing else")
	lines := strings.Split(coloured, "\n")
	require.Contains(t, lines[3], "\x1b[", "the root stands out")
	for i, r := range run.Rows[1:] {
		require.Equal(t, r.Rejected > 0, strings.Contains(lines[4+i], "\x1b["+text.FgYellow.EscapeSeq()[2:]), r.Path)
	}
	require.NotContains(t, strings.Join(lines[3+len(run.Rows):], "\n"), "\x1b[3", "totals and notes are plain")
}

func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestTableEmpty(t *testing.T) {
	golden(t, "empty", tableOf(t, &result.Run{Tree: "api", Mode: "police", Unit: "requests"}, Look{}))
	instant := sample()
	instant.Seconds = 0
	require.NotContains(t, tableOf(t, instant, Look{}), "Inf", "a trace of one instant has no rate")
}

// full is an output with no room left.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrors(t *testing.T) {
	require.ErrorIs(t, Table(full{}, sample(), Look{}), errFull)
	require.ErrorIs(t, Classes(full{}, "api", "requests", htb.Spec{Rate: algo.PerSecond(1)}, Look{}), errFull)
	require.ErrorIs(t, JSON(full{}, sample()), errFull)
	require.ErrorIs(t, CSV(full{}, sample()), errFull)
}

func TestClasses(t *testing.T) {
	root := htb.Spec{Rate: algo.PerSecond(1000), Children: []htb.Spec{
		{Name: "acme", Rate: algo.PerSecond(600), Ceil: algo.PerSecond(1000), Also: []htb.Limit{{Rate: per(t, 5000, time.Hour), Burst: 7000}}},
		{Name: "租/户", Rate: per(t, 5, time.Minute), Prio: 3, Quantum: 12},
		{Name: "free", Rate: algo.PerSecond(100), Ceil: algo.PerSecond(400), Children: []htb.Spec{
			{Name: "*", Rate: algo.PerSecond(5), Burst: 20, Max: 1000},
		}},
	}}.Resolved()
	var b strings.Builder
	require.NoError(t, Classes(&b, "api", "requests", root, Look{}))
	golden(t, "classes", b.String())
	b.Reset()
	require.NoError(t, Classes(&b, "api", "requests", root, Look{Colour: true}))
	require.Contains(t, b.String(), "\x1b[")
}

func TestIndent(t *testing.T) {
	for _, step := range []struct {
		path  string
		depth int
		want  string
	}{
		{"global", 0, "global"},
		{"free/a", 2, "    free/a"},
		{strings.Repeat("x", 44), 0, strings.Repeat("x", 44)},
		{strings.Repeat("a", 22) + "bbb" + strings.Repeat("c", 21), 1, "  " + strings.Repeat("a", 22) + "…" + strings.Repeat("c", 21)},
		{strings.Repeat("長", 22), 0, strings.Repeat("長", 22)},
		{strings.Repeat("長", 23), 0, strings.Repeat("長", 11) + "…" + strings.Repeat("長", 10)},
		{"a\u009bb", 0, "a%C2%9Bb"},
		{"a\u2028b\u200b", 0, "a%E2%80%A8b%E2%80%8B"},
		{"été 100%25", 0, "été 100%25"},
	} {
		got := indent(step.path, step.depth)
		require.Equal(t, step.want, got)
		require.LessOrEqual(t, text.StringWidth(got), 2*step.depth+maxPath)
	}
}

func TestAmount(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 20: "20", 60.000000000000007: "60", 59.99999999999999: "60", 2.5: "2.5", 0.1: "0.1", 0.25: "0.2", 99.94: "99.9", 99.96: "100",
		99.5: "99.5", 100.4: "100", 100.5: "101", 1000: "1,000", 999999.6: "1,000,000", 1e12: "1,000,000,000,000",
		0.0999: "0.1", 0.034: "0.034", 0.000277777: "0.00028", 1.0 / 31536000: "3.2e-08", -2.5: "-2.5",
	} {
		require.Equal(t, want, amount(x), "%v", x)
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567",
		-1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, group(n))
	}
}

func TestPercentAndSpan(t *testing.T) {
	require.Equal(t, "-", percent(0, 0))
	require.Equal(t, "-", percent(5, 0))
	require.Equal(t, "0.0%", percent(0, 3))
	require.Equal(t, "33.3%", percent(1, 3))
	require.Equal(t, "100.0%", percent(7, 7))

	require.Equal(t, "0 s", span(0))
	require.Equal(t, "7.5 s", span(7.5))
	require.Equal(t, "599 s", span(599))
	require.Equal(t, "10.0 minutes", span(600))
	require.Equal(t, "119.9 minutes", span(7194))
	require.Equal(t, "2.0 hours", span(7200))
	require.Equal(t, "41.0 hours", span(41*3600))
}

func per(t *testing.T, units int64, period time.Duration) algo.Rate {
	t.Helper()
	r, err := algo.NewRate(units, period)
	require.NoError(t, err)
	return r
}
