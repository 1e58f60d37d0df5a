package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// frame is one coordinate system: seconds from 0 to xmax across, units per
// second from 0 to ymax up. The canvas is the data area; labels go outside it.
type frame struct {
	draw.Canvas
	xmax, ymax float64
}

func (f frame) x(v float64) vg.Length { return f.Canvas.X(v / f.xmax) }
func (f frame) y(v float64) vg.Length { return f.Canvas.Y(v / f.ymax) }

// axes draws grid, ticks and labels, with about so many labels on y.
func (f frame) axes(labels pen, count int) {
	size := labels.font.Size
	div, suffix := magnitude(f.ymax)
	for _, v := range ticks(f.ymax, tickStep(f.ymax/float64(count))) {
		f.StrokeLine2(gridLine, f.Min.X, f.y(v), f.Max.X, f.y(v))
		label := "0"
		if v > 0 {
			label = trim(v/div) + suffix
		}
		labels.right(f.Canvas, f.Min.X-4, f.y(v)-size*0.35, label)
	}
	per, _ := timeUnit(f.xmax)
	room := float64((f.Max.X - f.Min.X) / (size * 3)) // a label and its gap
	for _, v := range ticks(f.xmax/per, timeStep(f.xmax/per/min(room, 8), per)) {
		x := f.x(v * per)
		f.StrokeLine2(axisLine, x, f.Min.Y, x, f.Min.Y-3)
		labels.center(f.Canvas, x, f.Min.Y-5-size*0.8, trim(v))
	}
}

// base draws the line at zero, last, so that no area hides it.
func (f frame) base() { f.StrokeLine2(axisLine, f.Min.X, f.Min.Y, f.Max.X, f.Min.Y) }

// steps is the outline of values as a staircase: each holds for its whole
// point, so that a single one is still visible. Moves too small to see are left out.
func (f frame) steps(edges, values []float64) []vg.Point {
	var out []vg.Point
	for i, v := range values {
		y := f.y(v)
		if n := len(out); n == 0 {
			out = append(out, vg.Point{X: f.x(edges[0]), Y: y})
		} else if last := out[n-1]; math.Abs(float64(y-last.Y)) > 0.03 {
			x := f.x(edges[i])
			out = append(out, vg.Point{X: x, Y: last.Y}, vg.Point{X: x, Y: y})
		}
	}
	return append(out, vg.Point{X: f.x(edges[len(edges)-1]), Y: out[len(out)-1].Y})
}

func (f frame) area(edges, values []float64, fill color.Color) {
	pts := f.steps(edges, values)
	pts = append(pts, vg.Point{X: f.Max.X, Y: f.Min.Y}, vg.Point{X: f.Min.X, Y: f.Min.Y})
	f.FillPolygon(fill, f.ClipPolygonY(pts))
}

// line draws values, broken where they leave the frame.
func (f frame) line(edges, values []float64, sty draw.LineStyle) {
	f.StrokeLines(sty, f.ClipLinesY(f.steps(edges, values))...)
}

// level draws a horizontal line, when it lies in the frame.
func (f frame) level(v float64, sty draw.LineStyle) {
	if v > 0 && v <= f.ymax {
		f.StrokeLine2(sty, f.Min.X, f.y(v), f.Max.X, f.y(v))
	}
}

// timeUnit is the unit that a time axis of so many seconds reads best in.
func timeUnit(seconds float64) (per float64, name string) {
	switch {
	case seconds <= 180:
		return 1, "s"
	case seconds <= 180*60:
		return 60, "min"
	}
	return 3600, "h"
}

// timeStep is tickStep with parts of a day for hours.
func timeStep(least, per float64) float64 {
	if per == 3600 && least > 0.5 {
		for _, s := range []float64{1, 2, 3, 6, 12, 24, 48, 72, 168} {
			if s >= least {
				return s
			}
		}
	}
	return tickStep(least)
}

// tickStep is the smallest of 1, 2 or 5 times a power of ten that is not below least.
func tickStep(least float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= least*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

func ticks(most, step float64) []float64 {
	var out []float64
	for i := 0; float64(i)*step <= most*(1+1e-9) && i < 100; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}
