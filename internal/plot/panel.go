package plot

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-sluice/sluice/internal/result"
)

const (
	maxPanels   = 30
	panelPoints = 240
	panelHeight = 135
	panelGap    = 14
	panelsHead  = 44
	panelsFoot  = 20
)

// panelRows picks the rows that get a panel, and counts those left out.
func panelRows(run *result.Run) (rows []int, left int) {
	for i := range run.Rows {
		if run.Rows[i].Depth > 0 {
			rows = append(rows, i)
		}
	}
	if left = len(rows) - maxPanels; left > 0 {
		return largest(run, rows, maxPanels), left
	}
	return rows, 0
}

// panels draws one small chart per class, each on a scale of its own.
func panels(run *result.Run, b bands, rows []int, left int) part {
	cols := 3
	switch n := len(rows); {
	case n > 12:
		cols = 4
	case n <= 2 || n == 4:
		cols = 2
	}
	lines := (len(rows) + cols - 1) / cols
	foot := vg.Length(0)
	if left > 0 {
		foot = panelsFoot
	}
	return part{height: panelsHead + vg.Length(lines)*panelHeight + foot, draw: func(c draw.Canvas) {
		t := newTimeline(run, panelPoints)
		_, name := timeUnit(t.end())
		headPen.left(c, c.Min.X, c.Max.Y-14, fmt.Sprintf("Each class on a scale of its own, %s over time in %s%s",
			smallUnit(run), name, means(t)))
		key(c, c.Max.Y-31)
		tiles := draw.Tiles{Cols: cols, Rows: lines, PadX: panelGap}
		area := draw.Crop(c, 0, 0, foot, -panelsHead)
		for i, row := range rows {
			panel(tiles.At(area, i%cols, i/cols), run, row, t, b)
		}
		if left > 0 {
			bodyPen.left(c, c.Min.X, c.Min.Y+4, fmt.Sprintf("Classes not shown, the smallest by what they got: %s.", group(int64(left))))
		}
	}}
}

// key explains what all panels have in common.
func key(c draw.Canvas, y vg.Length) {
	x := c.Min.X
	swatch(c, x, y-1.5, others)
	smallPen.left(c, x+15, y, "gets")
	x += 52
	for _, k := range []struct {
		name string
		line draw.LineStyle
	}{{"wants", wantsLine}, {"fair: the ideal allocation", fairLine}, {"rate: the guarantee", rateLine}, {"ceil", ceilLine}} {
		c.StrokeLine2(k.line, x, y+3, x+20, y+3)
		smallPen.left(c, x+25, y, k.name)
		x += 43 + smallPen.width(k.name)
	}
}

func panel(c draw.Canvas, run *result.Run, i int, t timeline, b bands) {
	row := &run.Rows[i]
	wide := c.Max.X - c.Min.X
	namePen.left(c, c.Min.X, c.Max.Y-9, namePen.shorten(clean(row.Path), wide))
	smallPen.left(c, c.Min.X, c.Max.Y-20, limits(row))

	gets := perSecond(t, row.Series.Gets)
	wants := perSecond(t, row.Series.Wants)
	fair := perSecond(t, row.Series.Fair)
	rate, ceil := finite(row.Rate), finite(row.Ceil)
	if row.Rest {
		rate, ceil = 0, 0 // they are one child's, the series are all children's
	}
	f := frame{xmax: t.end(), ymax: panelMax(top(gets), top(fair), rate, ceil, top(wants))}
	f.Canvas = draw.Crop(c, 30, 0, 22, -29)
	f.axes(smallPen, 5)
	f.area(t.edges, gets, tint(b.colors[i]))
	f.line(t.edges, wants, wantsLine)
	edge := draw.LineStyle{Color: shade(b.colors[i]), Width: 0.9}
	f.line(t.edges, gets, edge)
	f.level(ceil, ceilLine)
	f.level(rate, rateLine)
	if top(fair) > 0 {
		f.line(t.edges, fair, fairLine)
	}
	f.base()
}

// panelMax is the top of a panel's axis. Wants count only when there is nothing
// else: a flood of 100 times the ceil would flatten what the panel is for. So
// would a limit far above anything the class got; the title names it anyway.
func panelMax(gets, fair, rate, ceil, wants float64) float64 {
	most := max(gets, fair)
	for _, v := range []float64{rate, ceil} {
		if v <= 4*max(gets, fair) || most == 0 {
			most = max(most, v)
		}
	}
	if most == 0 {
		most = wants
	}
	return 1.15 * positive(most)
}

func limits(row *result.Row) string {
	switch {
	case row.Rest:
		return "all other children"
	case !row.Leaf:
		return fmt.Sprintf("rate %s · ceil %s · with its children", compact(row.Rate), compact(row.Ceil))
	}
	return fmt.Sprintf("rate %s · ceil %s", compact(row.Rate), compact(row.Ceil))
}
