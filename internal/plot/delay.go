package plot

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-sluice/sluice/internal/result"
)

const (
	delaysHead = 64 // title, key and the labels of the axis
	delaysFoot = 18
	delayLine  = 16
	delayRoom  = 48 // for one of the three columns of numbers
	zeroRoom   = 24 // between zero, which no logarithm reaches, and the first power of ten
)

// shaped says whether run queued what it could not let through at once.
func shaped(run *result.Run) bool { return run.Mode == "shape" }

// delayRows is the rows of the panels that released something, since only those
// have a delay, and the number of such rows left out.
func delayRows(run *result.Run) (rows []int, left int) {
	shown, _ := panelRows(run)
	for _, i := range shown {
		if run.Rows[i].Gets > 0 {
			rows = append(rows, i)
		}
	}
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Depth > 0 && r.Gets > 0 {
			left++
		}
	}
	return rows, left - len(rows)
}

// delays draws how long each class queued what it released, one line per class.
func delays(run *result.Run, b bands, rows []int, left int) part {
	foot := vg.Length(delaysFoot)
	if left > 0 {
		foot += panelsFoot
	}
	return part{height: delaysHead + vg.Length(len(rows))*delayLine + foot, draw: func(c draw.Canvas) {
		headPen.left(c, c.Min.X, c.Max.Y-14, "Time in the queue of what was released, on a logarithmic scale")
		delayKey(c, c.Max.Y-31)
		var names []string
		for _, i := range rows {
			names = append(names, clean(run.Rows[i].Path))
		}
		room := legendRoom(names)
		s := newDelayScale(run, rows)
		s.Canvas = draw.Crop(c, room+16, -3*delayRoom-10, foot, -delaysHead)
		s.axis()
		for k, name := range []string{"p50", "p99", "max ms"} {
			smallPen.right(c, c.Max.X-vg.Length(2-k)*delayRoom, s.Max.Y+5, name)
		}
		for k, i := range rows {
			y := s.Max.Y - (vg.Length(k)+0.5)*delayLine
			d := run.Rows[i].Delay
			smallPen.left(c, c.Min.X, y-3, smallPen.shorten(names[k], room))
			s.StrokeLine2(gridLine, s.Min.X, y, s.Max.X, y)
			delayMark(s.Canvas, delaySpan{s.x(d.P50), s.x(d.P99), s.x(d.Max)}, y, b.colors[i])
			for k, v := range []float64{d.P50, d.P99, d.Max} {
				smallPen.right(c, c.Max.X-vg.Length(2-k)*delayRoom, y-3, millis(v))
			}
		}
		if left > 0 {
			bodyPen.left(c, c.Min.X, c.Min.Y+12, fmt.Sprintf("Classes not shown, the smallest by what they got: %s.", group(int64(left))))
		}
	}}
}

// delayKey explains one line of the chart by an example of it.
func delayKey(c draw.Canvas, y vg.Length) {
	x := c.Min.X
	delayMark(c, delaySpan{x, x + 16, x + 28}, y+3, others)
	smallPen.left(c, x+36, y, "bar from p50 to p99, line on to max: half waited no longer than p50, 99 % no longer than p99")
}

// delaySpan is where one class's quantiles lie across the page.
type delaySpan struct{ p50, p99, most vg.Length }

// delayMark draws a bar over the quantiles and a whisker out to the longest
// delay. A bar too short to see is drawn wider, to the right, so that zeros show.
func delayMark(c draw.Canvas, d delaySpan, y vg.Length, fill color.Color) {
	const half, least = 3.5, 3
	edge := draw.LineStyle{Color: shade(fill), Width: 0.7}
	end := max(d.p99, d.p50+least)
	c.StrokeLine2(edge, end, y, max(d.most, end), y)
	bar := []vg.Point{{X: d.p50, Y: y - half}, {X: end, Y: y - half}, {X: end, Y: y + half}, {X: d.p50, Y: y + half}, {X: d.p50, Y: y - half}}
	c.FillPolygon(fill, bar)
	c.StrokeLines(edge, bar)
	edge.Width = 1.3
	c.StrokeLine2(edge, max(d.most, end), y-half-1, max(d.most, end), y+half+1)
}

// delayScale is a logarithmic axis across its canvas, over whole powers of ten
// of a millisecond, with a place of its own for zero at the left edge.
type delayScale struct {
	draw.Canvas
	low, high int
}

// The ends of any axis, 1 µs and some 30,000 years: nothing measured lies
// beyond, and a made-up run must not make a picture of a thousand ticks.
const lowestPower, highestPower = -3, 15

// newDelayScale fits the delays of rows that are not zero.
func newDelayScale(run *result.Run, rows []int) delayScale {
	least, most := math.Inf(1), 0.0
	for _, i := range rows {
		d := run.Rows[i].Delay
		for _, v := range []float64{d.P50, d.P99, d.Max} {
			if v = finite(v); v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if most == 0 {
		return delayScale{low: -1, high: 1}
	}
	// The nudge keeps an exact power of ten, whose logarithm is not, from adding a decade.
	low := int(math.Floor(math.Log10(least) + 1e-9))
	high := int(math.Ceil(math.Log10(most) - 1e-9))
	low = min(max(low, lowestPower), highestPower-1)
	return delayScale{low: low, high: min(max(high, low+1), highestPower)}
}

// x is the place of v milliseconds; what cannot be drawn counts as zero.
func (s delayScale) x(v float64) vg.Length {
	if v = finite(v); v == 0 {
		return s.Min.X
	}
	decades := min(max(math.Log10(v)-float64(s.low), 0), float64(s.high-s.low))
	return s.Min.X + zeroRoom + (s.Max.X-s.Min.X-zeroRoom)*vg.Length(decades/float64(s.high-s.low))
}

func (s delayScale) axis() {
	y := s.Max.Y + 5
	s.StrokeLine2(axisLine, s.Min.X, s.Min.Y, s.Min.X, s.Max.Y)
	smallPen.center(s.Canvas, s.Min.X, y, "0")
	every := (s.high-s.low)/9 + 1 // as many labels as have room
	for e := s.low; e <= s.high; e++ {
		at := math.Pow10(e)
		s.StrokeLine2(draw.LineStyle{Color: others, Width: 0.7}, s.x(at), s.Min.Y, s.x(at), s.Max.Y)
		if (e-s.low)%every == 0 {
			smallPen.center(s.Canvas, s.x(at), y, powerLabel(e))
		}
		for m := 2.0; m < 10 && e < s.high; m++ {
			s.StrokeLine2(gridLine, s.x(m*at), s.Max.Y, s.x(m*at), s.Max.Y-3)
			s.StrokeLine2(gridLine, s.x(m*at), s.Min.Y, s.x(m*at), s.Min.Y+3)
		}
	}
}

// powerLabel writes 10^e milliseconds in the unit that reads best.
func powerLabel(e int) string {
	switch {
	case e < -1:
		return trim(math.Pow10(e+3)) + " µs"
	case e < 3:
		return trim(math.Pow10(e)) + " ms"
	}
	return compact(math.Pow10(e-3)) + " s"
}

// millis writes a delay with the three digits that a quantile is good for.
func millis(v float64) string {
	v = finite(v)
	if v >= 100 || v == 0 {
		return number(v)
	}
	digits := 2 - max(int(math.Floor(math.Log10(v))), -4)
	p := math.Pow10(digits)
	return trim(math.Round(v*p) / p)
}
