package plot

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	black  = color.Gray{0x11}
	dark   = color.Gray{0x44}
	others = color.Gray{0xC4}                   // folded leaves
	inner  = color.RGBA{0x5A, 0x64, 0x78, 0xFF} // classes that only share
	grid   = color.Gray{0xDD}

	gridLine  = draw.LineStyle{Color: grid, Width: 0.5}
	axisLine  = draw.LineStyle{Color: dark, Width: 1}
	seamLine  = draw.LineStyle{Color: color.White, Width: 0.6}
	ceilLine  = draw.LineStyle{Color: black, Width: 0.9}
	rateLine  = draw.LineStyle{Color: black, Width: 1.1, Dashes: []vg.Length{5, 2.5}}
	fairLine  = draw.LineStyle{Color: black, Width: 0.8, Dashes: []vg.Length{0.9, 1.7}}
	wantsLine = draw.LineStyle{Color: color.Gray{0x77}, Width: 0.7}
)

// hues are the bands from the bottom up: the Okabe-Ito colours, which the
// colour-blind can tell apart, then dark and pale ones by turns, since beyond
// eight hues only lightness still tells bands apart.
var hues = []color.RGBA{
	{0x00, 0x72, 0xB2, 0xFF}, // blue
	{0xE6, 0x9F, 0x00, 0xFF}, // orange
	{0x00, 0x9E, 0x73, 0xFF}, // green
	{0xCC, 0x79, 0xA7, 0xFF}, // pink
	{0x56, 0xB4, 0xE9, 0xFF}, // sky
	{0xD5, 0x5E, 0x00, 0xFF}, // vermilion
	{0xF0, 0xE4, 0x42, 0xFF}, // yellow
	{0x20, 0x20, 0x8F, 0xFF}, // indigo
	{0xC4, 0xE8, 0xFF, 0xFF}, // pale blue
	{0x47, 0x0C, 0x36, 0xFF}, // plum
	{0xD0, 0xF2, 0xA4, 0xFF}, // pale green
	{0x6E, 0x24, 0x00, 0xFF}, // brown
}

// tint mixes c with white, so that lines over it stay readable.
func tint(c color.Color) color.Color { return mix(c, color.White, 0.45) }

// shade mixes c with black, so that the edge of a pale area shows.
func shade(c color.Color) color.Color { return mix(c, color.Black, 0.3) }

func mix(c, with color.Color, part float64) color.Color {
	r, g, b, _ := c.RGBA()
	to, _, _, _ := with.RGBA()
	blend := func(v uint32) uint8 { return uint8((float64(v)*(1-part) + float64(to)*part) / 0x101) }
	return color.RGBA{blend(r), blend(g), blend(b), 0xFF}
}
