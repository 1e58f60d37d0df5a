package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 720 // points
	height = 520
)

// hues are three of the Okabe-Ito colours, which the colour-blind can tell apart.
var hues = []color.RGBA{{0x00, 0x72, 0xB2, 0xFF}, {0xD5, 0x5E, 0x00, 0xFF}, {0x00, 0x9E, 0x73, 0xFF}}

func draw(panels []*panel, path string) error {
	const columns = 2
	plots := make([][]*plot.Plot, (len(panels)+columns-1)/columns)
	for i, p := range panels {
		drawn, err := p.plot()
		if err != nil {
			return err
		}
		plots[i/columns] = append(plots[i/columns], drawn)
	}
	tiles := vgdraw.Tiles{Rows: len(plots), Cols: columns, PadX: 24, PadY: 20, PadTop: 10, PadBottom: 10, PadLeft: 10, PadRight: 14}
	on := func(c vg.CanvasSizer) {
		canvas := vgdraw.New(c)
		canvas.SetColor(color.White)
		canvas.Fill(canvas.Rectangle.Path())
		for row, tile := range plot.Align(plots, tiles, canvas) {
			for column, p := range plots[row] {
				p.Draw(tile[column])
			}
		}
	}
	var b bytes.Buffer
	var err error
	if filepath.Ext(path) == ".png" {
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))
		on(c)
		_, err = vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
	} else {
		c := vgsvg.New(width, height)
		on(c)
		_, err = c.WriteTo(&b)
	}
	if err != nil {
		return err
	}
	// Where there is no Liberation Sans, Arial has its metrics.
	text := bytes.ReplaceAll(b.Bytes(), []byte(`font-family:Liberation Sans;`), []byte(`font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`))
	return os.WriteFile(path, text, 0o644)
}

func (p *panel) plot() (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.title, p.x, "ns for a decision"
	for _, f := range []*font.Font{&out.Title.TextStyle.Font, &out.X.Label.TextStyle.Font, &out.Y.Label.TextStyle.Font,
		&out.X.Tick.Label.Font, &out.Y.Tick.Label.Font, &out.Legend.TextStyle.Font} {
		f.Variant, f.Size = "Sans", 10
	}
	out.Title.TextStyle.Font.Size, out.Title.Padding = 12, 6
	out.Y.Min = 0
	if p.log {
		out.X.Scale = plot.LogScale{}
	}
	out.X.Tick.Marker = plot.ConstantTicks(p.ticks())
	out.Y.Tick.Marker = whole{}
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = color.Gray{0xDD}
	out.Add(grid)
	out.Legend.Top, out.Legend.Left, out.Legend.Padding = true, true, 2
	least, most := math.Inf(1), 0.0
	for i, c := range p.curves {
		xy := make(plotter.XYs, len(c.at))
		for k, x := range c.at {
			xy[k] = plotter.XY{X: x.x, Y: x.ns}
			least, most = min(least, x.ns), max(most, x.ns)
		}
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		line.Color, line.Width = hues[i], 1.5
		dots.Color, dots.Shape, dots.Radius = hues[i], vgdraw.CircleGlyph{}, 2.2
		out.Add(line, dots)
		out.Legend.Add(c.name, line, dots)
	}
	room := 1.1 + 0.12*float64(len(p.curves)) // for the legend
	out.Y.Max = most * room
	if p.logCost {
		out.Y.Scale, out.Y.Tick.Marker = plot.LogScale{}, octaves{}
		out.Y.Min = least / 1.3
		out.Y.Max = most * math.Pow(most/least, room-1)
	}
	return out, nil
}

// whole is for ticks without decimals.
type whole struct{}

func (whole) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = fmt.Sprintf("%.0f", t.Value)
		}
	}
	return ticks
}

// octaves marks 1, 2 and 5 times each power of ten.
type octaves struct{}

func (octaves) Ticks(low, high float64) (ticks []plot.Tick) {
	for k := math.Pow(10, math.Floor(math.Log10(low))); k <= high; k *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * k; v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
			}
		}
	}
	return ticks
}

// ticks marks every point of the first curve.
func (p *panel) ticks() (ticks []plot.Tick) {
	for _, x := range p.curves[0].at {
		label := fmt.Sprintf("%.0f", x.x)
		if k := math.Round(math.Log10(x.x)); k >= 4 {
			label = map[float64]string{4: "10 k", 5: "100 k", 6: "1 M", 7: "10 M"}[k]
		}
		ticks = append(ticks, plot.Tick{Value: x.x, Label: label})
	}
	return ticks
}
