package plot

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-sluice/sluice/internal/result"
)

const (
	pageWidth = 720 // points, so 960 CSS pixels
	margin    = 16
)

// picture is the parts drawn one under the other, the same for every format.
type picture struct {
	width, height vg.Length
	parts         []part
}

// part is one full-width row of the picture. A further one is a function
// returning a part and a line in newPicture.
type part struct {
	height vg.Length
	draw   func(draw.Canvas)
}

func newPicture(run *result.Run) *picture {
	p := &picture{width: pageWidth, height: 2 * margin}
	p.add(header(title(run), summary(run)))
	if !traffic(run) {
		p.add(noTraffic())
		return p
	}
	b := newBands(run)
	p.add(stack(run, b))
	if rows, left := delayRows(run); shaped(run) && len(rows) > 0 {
		p.add(delays(run, b, rows, left))
	}
	if rows, left := panelRows(run); len(rows) > 0 {
		p.add(panels(run, b, rows, left))
	}
	return p
}

func (p *picture) add(q part) {
	p.parts = append(p.parts, q)
	p.height += q.height
}

func (p *picture) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := c.Max.Y - margin
	for _, q := range p.parts {
		q.draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: c.Min.X + margin, Y: top - q.height},
			Max: vg.Point{X: c.Max.X - margin, Y: top},
		}})
		top -= q.height
	}
}

// header is the title, and a line that says it all.
func header(title, summary string) part {
	return part{height: 44, draw: func(c draw.Canvas) {
		wide := c.Max.X - c.Min.X
		titlePen.left(c, c.Min.X, c.Max.Y-16, titlePen.shorten(title, wide))
		bodyPen.left(c, c.Min.X, c.Max.Y-32, bodyPen.shorten(summary, wide))
	}}
}

func title(run *result.Run) string {
	name := clean(run.Tree)
	if name == "" {
		name = "tree"
	}
	if run.Mode == "" {
		return name
	}
	return name + ", " + clean(run.Mode) + " mode"
}

func summary(run *result.Run) string {
	per, name := timeUnit(run.Seconds)
	s := trim(run.Seconds/per) + " " + name
	if root, ok := rootOf(run); ok && root.Wants > 0 {
		s += fmt.Sprintf(" · got %s of %s %s wanted (%.0f %%)", group(root.Gets), group(root.Wants),
			unit(run), 100*float64(root.Gets)/float64(root.Wants))
	}
	return s
}

func noTraffic() part {
	return part{height: 160, draw: func(c draw.Canvas) {
		c.StrokeLines(gridLine, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}, c.Min})
		headPen.center(c, c.Center().X, c.Center().Y, "no traffic")
	}}
}

// traffic says whether there is anything to draw: time, and something wanted in it.
func traffic(run *result.Run) bool {
	if len(newTimeline(run, 1).edges) == 0 {
		return false
	}
	for i := range run.Rows {
		s := &run.Rows[i].Series
		for _, series := range [][]int64{s.Wants, s.Gets} {
			for _, v := range series {
				if v > 0 {
					return true
				}
			}
		}
	}
	return false
}

func rootOf(run *result.Run) (*result.Row, bool) {
	if len(run.Rows) == 0 || run.Rows[0].Depth != 0 {
		return nil, false
	}
	return &run.Rows[0], true
}

func unit(run *result.Run) string {
	if run.Unit == "" {
		return "units"
	}
	return clean(run.Unit)
}
