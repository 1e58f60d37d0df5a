package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-sluice/sluice/internal/result"
)

const (
	stackPoints = 600
	stackHeight = 272
	legendLine  = 16
)

// bands is which leaves get a band of their own, in the order of the tree, and
// which are folded into one. Both hold row numbers.
type bands struct {
	own, folded []int
	colors      []color.Color // of every row
}

func newBands(run *result.Run) bands {
	var leaves []int
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Leaf || r.Rest {
			leaves = append(leaves, i)
		}
	}
	b := bands{own: leaves, colors: make([]color.Color, len(run.Rows))}
	if len(leaves) > len(hues) {
		b.own = largest(run, leaves, len(hues)-1)
		for _, i := range leaves {
			if !slices.Contains(b.own, i) {
				b.folded = append(b.folded, i)
			}
		}
	}
	for i := range b.colors {
		b.colors[i] = inner
	}
	for i, row := range b.own {
		b.colors[row] = hues[i]
	}
	for _, row := range b.folded {
		b.colors[row] = others
	}
	return b
}

// largest is the n rows with the most gets, in the order of the tree.
func largest(run *result.Run, rows []int, n int) []int {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b int) int {
		return cmp.Or(cmp.Compare(run.Rows[b].Gets, run.Rows[a].Gets), cmp.Compare(a, b))
	})
	rows = rows[:min(n, len(rows))]
	slices.Sort(rows)
	return rows
}

// stack is what the leaves got over time, one upon the other.
func stack(run *result.Run, b bands) part {
	return part{height: stackHeight, draw: func(c draw.Canvas) {
		t := newTimeline(run, stackPoints)
		tops, names, colors := b.pile(run, t)
		var most, ceil float64
		if len(tops) > 0 {
			most = top(tops[len(tops)-1])
		}
		if root, ok := rootOf(run); ok {
			ceil = finite(root.Ceil)
		}
		if ceil <= 4*most || most == 0 { // a ceil far above would flatten the bands
			most = max(most, ceil)
		}
		f := frame{xmax: t.end(), ymax: 1.08 * positive(most)}

		room := legendRoom(names)
		f.Canvas = draw.Crop(c, 40, -room-30, 34, -16)
		headPen.left(c, c.Min.X, c.Max.Y-9, "What the leaves got, "+smallUnit(run)+means(t))
		f.axes(smallPen, 5)
		_, name := timeUnit(f.xmax)
		smallPen.center(c, f.Center().X, c.Min.Y+9, "time, "+name)
		// From the top down: each area covers what lies below it, so every
		// boundary is drawn once, and no background shines through between two.
		for i := len(tops) - 1; i >= 0; i-- {
			f.area(t.edges, tops[i], colors[i])
			f.line(t.edges, tops[i], seamLine)
		}
		f.level(ceil, ceilLine)
		f.base()

		at := vg.Point{X: c.Max.X - room, Y: f.Max.Y - 9}
		if ceil > 0 {
			label := "ceil " + compact(ceil)
			if ceil > f.ymax {
				label += " (above)"
			}
			c.StrokeLine2(ceilLine, at.X-15, at.Y+3, at.X-5, at.Y+3)
			smallPen.left(c, at.X, at.Y, smallPen.shorten(label, room))
			at.Y -= legendLine
		}
		for i := len(tops) - 1; i >= 0; i-- { // in the order of the bands
			swatch(c, at.X-15, at.Y-1.5, colors[i])
			smallPen.left(c, at.X, at.Y, smallPen.shorten(names[i], room))
			at.Y -= legendLine
		}
	}}
}

// pile adds the bands up: tops[i] is the upper edge of band i.
func (b bands) pile(run *result.Run, t timeline) (tops [][]float64, names []string, colors []color.Color) {
	sum := make([]float64, len(t.edges)-1)
	add := func(row int) {
		for i, v := range perSecond(t, run.Rows[row].Series.Gets) {
			sum[i] += v
		}
	}
	for _, row := range b.own {
		add(row)
		tops = append(tops, slices.Clone(sum))
		names = append(names, clean(run.Rows[row].Path))
		colors = append(colors, b.colors[row])
	}
	if len(b.folded) > 0 {
		for _, row := range b.folded {
			add(row)
		}
		tops = append(tops, sum)
		names = append(names, fmt.Sprintf("%d others", len(b.folded)))
		colors = append(colors, others)
	}
	return tops, names, colors
}

// legendRoom is how wide the names get, within limits that leave room for the chart.
func legendRoom(names []string) vg.Length {
	room := vg.Length(70)
	for _, s := range names {
		room = max(room, smallPen.width(s))
	}
	return min(room, 150)
}

func swatch(c draw.Canvas, x, y vg.Length, fill color.Color) {
	c.FillPolygon(fill, []vg.Point{{X: x, Y: y}, {X: x + 10, Y: y}, {X: x + 10, Y: y + 10}, {X: x, Y: y + 10}})
}

func smallUnit(run *result.Run) string {
	return headPen.shorten(unit(run), 150) + " per second"
}

// means says what one point of a long run stands for.
func means(t timeline) string {
	if t.per <= 1 {
		return ""
	}
	return fmt.Sprintf(" (means of %d steps)", t.per)
}

// positive is v, or 1 where an axis would have no extent.
func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return 1
}
