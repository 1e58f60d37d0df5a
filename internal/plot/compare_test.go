package plot

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"

	"github.com/go-sluice/sluice/internal/result"
)

// comparison is made up: algorithms with names, each of which lets a part through.
func comparison(load string, parts ...float64) *result.Comparison {
	const steps = 100
	c := &result.Comparison{Load: load, Unit: "requests", Rate: "100/s", Burst: 200, Seconds: 10, Step: 0.1, Wants: 30 * steps}
	for i := range steps {
		c.Arrived = append(c.Arrived, int64(30*(i+1)))
		c.Promised = append(c.Promised, min(float64(30*(i+1)), float64(200+10*i)))
	}
	for k, part := range parts {
		r := result.Flat{Flag: fmt.Sprint("a", k), Name: fmt.Sprint("algorithm ", k), Set: "burst 200", Worst: result.Window{Seconds: 1, Units: 300, Above: 200}, State: 24}
		for i := range steps {
			r.Series = append(r.Series, int64(part*c.Promised[i]))
		}
		r.Accepted = r.Series[steps-1]
		r.Rejected = c.Wants - r.Accepted
		c.Rows = append(c.Rows, r)
	}
	return c
}

func comparisons() []*result.Comparison {
	return []*result.Comparison{
		comparison("steady", 1, 1, 1, 0.1, 0.9, 0.7, 1.2, 0.5, 0.6),
		comparison("two alike", 0.5, 0.5),
	}
}

func drawComparisons(t *testing.T, ext string, all []*result.Comparison) string {
	var b bytes.Buffer
	require.NoError(t, WriteComparisons(&b, ext, all))
	return b.String()
}

func TestComparisons(t *testing.T) {
	odd := comparison("\x1b<script>", 0.5)
	odd.Rows[0].Name, odd.Unit, odd.Notes = `"><img onerror=x src=y>`, "\u202e&", []string{"</li><script>"}
	long := comparison(strings.Repeat("long ", 100), 1)
	long.Rows[0].Name = strings.Repeat("name ", 50)
	for name, all := range map[string][]*result.Comparison{
		"good": comparisons(), "none": nil, "empty": {{}}, "odd": {odd}, "long": {long}, "flat": {comparison("nothing", 0)},
	} {
		svg := drawComparisons(t, ".svg", all)
		require.NoError(t, checkXML([]byte(svg)), name)
		require.NotContains(t, svg, "NaN", name)
		require.NotContains(t, svg, "Inf", name)
		require.Equal(t, svg, drawComparisons(t, ".SVG", all), name)
		page := drawComparisons(t, ".html", all)
		require.Empty(t, fetched.FindString(string(unescapedParts([]byte(page)))), name)
		require.NotContains(t, page, "<?xml")
	}
}

// Algorithms that are equal throughout are one line, with all their names beside it.
func TestEqualAlgorithmsAreOneLine(t *testing.T) {
	c := comparisons()[0]
	all := lines(c)
	require.Len(t, all, 7)
	require.Equal(t, []string{"algorithm 0", "algorithm 1", "algorithm 2"}, all[0].names)
	styles := map[string]bool{}
	for _, d := range all {
		styles[fmt.Sprint(d.style)] = true
	}
	require.Len(t, styles, len(all), "each looks different")
	svg := drawComparisons(t, ".svg", []*result.Comparison{c})
	for i := range 9 {
		require.Equal(t, 1, strings.Count(svg, fmt.Sprint("algorithm ", i)), "every name is there")
	}
	require.Contains(t, svg, "= algorithm 1")
	require.Contains(t, svg, "came: 3,000")
}

// Lines that lie on each other show through: the solid ones are at the bottom.
func TestSolidLinesAreBelow(t *testing.T) {
	sorted := fullestFirst(lines(comparison("a", .1, .2, .3, .4, .5, .6, .7, .8, .9)))
	require.Len(t, sorted, 9)
	require.Empty(t, sorted[0].style.Dashes)
	require.Empty(t, sorted[1].style.Dashes)
	require.NotEmpty(t, sorted[2].style.Dashes)
	require.Equal(t, []vg.Length{2, 2}, sorted[8].style.Dashes)
}

// A line keeps its look from chart to chart, also where others are missing or equal.
func TestLooksStay(t *testing.T) {
	a, b := lines(comparison("a", .1, .2, .3, .4)), lines(comparison("b", .1, .1, .3, .4))
	require.Equal(t, a[2].style, b[1].style)
	require.Equal(t, a[3].style, b[2].style)
}

// Every hue of a line is one of those that palette_test holds apart.
func TestLineHues(t *testing.T) {
	for i, h := range lineHues {
		require.Contains(t, hues, h)
		require.NotContains(t, lineHues[:i], h)
	}
	require.Len(t, strokes, len(lineHues))
}

// The page has the numbers of every chart in a table.
func TestComparisonTables(t *testing.T) {
	page := drawComparisons(t, ".html", comparisons())
	require.Equal(t, 2, strings.Count(page, "<table>"))
	require.Equal(t, 9+2, len(regexp.MustCompile(`<th scope="row"`).FindAllString(page, -1)))
	require.Contains(t, page, "<td>200</td><td>100.0%</td><td>1s</td>")
}

// What leaves a queue after the end of its series is in the total beside its line, which is
// then a line of its own.
func TestTotalsBeyondTheSeries(t *testing.T) {
	c := comparison("a", 0.5, 0.5)
	c.Rows[1].Accepted += 12_345
	all := lines(c)
	require.Len(t, all, 2)
	svg := drawComparisons(t, ".svg", []*result.Comparison{c})
	require.Contains(t, svg, fmt.Sprintf("algorithm 1: %d,%03d", c.Rows[1].Accepted/1000, c.Rows[1].Accepted%1000))
}
