package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-sluice/sluice/internal/report"
	"github.com/go-sluice/sluice/internal/result"
)

// WriteComparisons draws what each algorithm let through over time, one chart for each
// comparison, into w in the format that ext names, one of Formats.
func WriteComparisons(w io.Writer, ext string, all []*result.Comparison) error {
	return write(w, ext, document{
		picture: comparePicture(all),
		page: func() pageData {
			return pageData{Title: compareTitle, Summary: compareSummary(all), Tables: compareTables(all), Notes: compareNotes(all)}
		},
	})
}

const compareTitle = "Flat algorithms side by side"

func compareSummary(all []*result.Comparison) string {
	if len(all) == 0 {
		return "nothing to compare"
	}
	return fmt.Sprintf("promised: %s, burst %s: in any window of length w at most %d + %s × w", clean(all[0].Rate), group(all[0].Burst), all[0].Burst, clean(all[0].Rate))
}

func comparePicture(all []*result.Comparison) *picture {
	p := &picture{width: pageWidth, height: 2 * margin}
	p.add(header(compareTitle, compareSummary(all)))
	for _, c := range all {
		p.add(chart(c))
	}
	if len(all) == 0 {
		p.add(noTraffic())
	}
	return p
}

// strokes tell lines apart beside their colour, and where two lie on each other.
var strokes = [][]vg.Length{nil, {7, 2.5}, {2, 2}, {9, 2.5, 2, 2.5}, nil, {4, 3}, {10, 2}, {12, 4}, {6, 2, 1, 2, 1, 2}}

// lineHues are those of the bands that show as a line on white.
var lineHues = []color.RGBA{hues[0], hues[11], hues[3], hues[1], hues[9], hues[4], hues[5], hues[2], hues[7]}

var (
	promiseFill = color.RGBA{0xEE, 0xEE, 0xEE, 0xFF}
	arrivedLine = draw.LineStyle{Color: color.Gray{0x88}, Width: 0.8}
)

// drawn is a line of a chart: every algorithm that let the same through at the same time.
type drawn struct {
	names  []string
	total  int64 // what it let through in all, also after the series
	series []int64
	style  draw.LineStyle
}

// lines puts together the rows that are equal throughout: drawn twice, only one would
// be seen. A row has the same style in every chart.
func lines(c *result.Comparison) []drawn {
	var out []drawn
	for k, r := range c.Rows {
		i := slices.IndexFunc(out, func(d drawn) bool { return d.total == r.Accepted && slices.Equal(d.series, r.Series) })
		if i < 0 {
			i, out = len(out), append(out, drawn{total: r.Accepted, series: r.Series, style: draw.LineStyle{Color: lineHues[k%len(lineHues)], Width: 1.6, Dashes: strokes[k%len(strokes)]}})
		}
		out[i].names = append(out[i].names, clean(r.Name))
	}
	return out
}

// fullestFirst puts those with the widest gaps last: where two lie on each other, the
// one below shows through.
func fullestFirst(all []drawn) []drawn {
	ink := func(d drawn) float64 {
		var on, all vg.Length
		for i, v := range d.style.Dashes {
			if all += v; i%2 == 0 {
				on += v
			}
		}
		if all == 0 {
			return 1
		}
		return float64(on / all)
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b drawn) int { return cmp.Compare(ink(b), ink(a)) })
}

const (
	chartHeight = 236 // of the least
	chartFrame  = 66  // title, axis and gap
	keyRoom     = 150
)

// legend is the lines of the key: the text, and whose line it explains.
type legend struct {
	text string
	line int // of lines; -1 the promise, -2 what came, -3 one more name of the line above
}

func newLegend(c *result.Comparison, all []drawn) []legend {
	out := []legend{{"came: " + group(c.Wants), -2}, {"the promise: most by then", -1}}
	for i, d := range all {
		for j, name := range d.names {
			if j == 0 {
				out = append(out, legend{name + ": " + group(d.total), i})
			} else {
				out = append(out, legend{"= " + name, -3})
			}
		}
	}
	return out
}

// chart draws one comparison.
func chart(c *result.Comparison) part {
	all := lines(c)
	key := newLegend(c, all)
	height := max(chartHeight, chartFrame+vg.Length(len(key))*13)
	return part{height: height, draw: func(area draw.Canvas) {
		wide := area.Max.X - area.Min.X
		headPen.left(area, area.Min.X, area.Max.Y-12, headPen.shorten(clean(c.Load), wide))
		smallPen.left(area, area.Min.X, area.Max.Y-25, smallPen.shorten("let through in all, "+headUnit(c), wide))
		f := newChartFrame(c)
		f.Canvas = draw.Crop(area, 40, -keyRoom-30, 36, -34)
		_, name := timeUnit(f.xmax)
		smallPen.center(area, f.Center().X, area.Min.Y+12, "time, "+name)
		if len(c.Arrived) == 0 {
			headPen.center(f.Canvas, f.Center().X, f.Center().Y, "no traffic")
			return
		}
		promised := f.rise(c.Step, c.Promised)
		f.FillPolygon(promiseFill, f.ClipPolygonY(append(slices.Clone(promised), vg.Point{X: f.Max.X, Y: f.Min.Y}, vg.Point{X: f.Min.X, Y: f.Min.Y})))
		f.axes(smallPen, 5) // over the area
		f.StrokeLines(rateLine, f.ClipLinesY(promised)...)
		f.StrokeLines(arrivedLine, f.ClipLinesY(f.rise(c.Step, floats(c.Arrived)))...)
		for _, d := range fullestFirst(all) {
			f.StrokeLines(d.style, f.ClipLinesY(f.rise(c.Step, floats(d.series)))...)
		}
		f.base()

		at := vg.Point{X: area.Max.X - keyRoom, Y: f.Max.Y - 7}
		for _, l := range key {
			switch style := arrivedLine; l.line {
			case -3:
			case -1:
				swatch(area, at.X-24, at.Y-1.5, promiseFill)
				swatch(area, at.X-14, at.Y-1.5, promiseFill)
				area.StrokeLine2(rateLine, at.X-26, at.Y+3, at.X-4, at.Y+3)
			default:
				if l.line >= 0 {
					style = all[l.line].style
				}
				area.StrokeLine2(style, at.X-26, at.Y+3, at.X-4, at.Y+3)
			}
			smallPen.left(area, at.X, at.Y, smallPen.shorten(l.text, keyRoom))
			at.Y -= 13
		}
	}}
}

func headUnit(c *result.Comparison) string {
	if c.Unit == "" {
		return "units"
	}
	return headPen.shorten(clean(c.Unit), 150)
}

// newChartFrame fits what the algorithms let through and what was promised. What came
// may go out at the top.
func newChartFrame(c *result.Comparison) frame {
	most := top(c.Promised)
	for _, r := range c.Rows {
		most = max(most, top(floats(r.Series)))
	}
	return frame{xmax: positive(finite(c.Step * float64(len(c.Arrived)))), ymax: 1.12 * positive(most)}
}

func floats(v []int64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// rise is the line from nothing at time 0 through what each step ends with. Points on
// the way of a straight line are left out.
func (f frame) rise(step float64, values []float64) []vg.Point {
	out := []vg.Point{{X: f.x(0), Y: f.y(0)}}
	for i, v := range values {
		p := vg.Point{X: f.x(step * float64(i+1)), Y: f.y(finite(v))}
		if n := len(out); n > 1 && i < len(values)-1 && math.Abs(float64(p.Y-out[n-1].Y)) < 0.03 && math.Abs(float64(out[n-1].Y-out[n-2].Y)) < 0.03 {
			out[n-1].X = p.X
			continue
		}
		out = append(out, p)
	}
	return out
}

func compareTables(all []*result.Comparison) []pageTable {
	var out []pageTable
	for _, c := range all {
		t := pageTable{
			Caption: fmt.Sprintf("%s. Accepted and rejected in %s; state in bytes.", clean(c.Load), headUnit(c)), First: "algorithm",
			Columns: []string{"set to", "accepted", "rejected", "most above rate × w", "of burst", "in a window of", "longest delay", "state"},
		}
		for _, r := range c.Rows {
			t.Rows = append(t.Rows, pageRow{Path: clean(r.Name), Cells: []string{
				clean(r.Set), group(r.Accepted), group(r.Rejected), report.Above(r.Worst), report.OfBurst(r.Worst, c.Burst), report.Window(r.Worst), report.Delay(r.Delay), group(int64(r.State)),
			}})
		}
		out = append(out, t)
	}
	return out
}

func compareNotes(all []*result.Comparison) (out []string) {
	for _, c := range all {
		for _, n := range c.Notes {
			out = append(out, strings.TrimSpace(clean(n)))
		}
	}
	return out
}
