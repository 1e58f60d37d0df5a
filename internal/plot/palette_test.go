package plot

import (
	"image/color"
	"math"
	"testing"
)

// simulations turn linear RGB into what the red-blind and the green-blind see
// (Machado, Oliveira and Fernandes 2009, severity 1).
var simulations = []struct {
	name   string
	matrix [3][3]float64
}{
	{"full sight", [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
	{"red-blind", [3][3]float64{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
	{"green-blind", [3][3]float64{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
}

// A distance of 2 in CIELAB is just noticeable side by side; a legend must be
// matched from afar, so any two bands are at least 15 apart.
func TestHuesStayApart(t *testing.T) {
	all := []color.Color{others}
	for _, h := range hues {
		all = append(all, h)
	}
	for _, s := range simulations {
		for i := range all {
			for j := range i {
				if d := distance(lab(all[i], s.matrix), lab(all[j], s.matrix)); d < 15 {
					t.Errorf("%s: %v and %v are only %.0f apart", s.name, all[i], all[j], d)
				}
			}
		}
	}
	// Full red and a dark green look alike to the green-blind: the guard must say so.
	red, green := color.RGBA{0xC0, 0x40, 0, 0xFF}, color.RGBA{0x80, 0x80, 0, 0xFF}
	if far, near := distance(lab(red, simulations[0].matrix), lab(green, simulations[0].matrix)),
		distance(lab(red, simulations[2].matrix), lab(green, simulations[2].matrix)); far < 40 || near > 15 {
		t.Errorf("red and green are %.0f apart, %.0f to the green-blind", far, near)
	}
}

func lab(c color.Color, m [3][3]float64) [3]float64 {
	r, g, b, _ := c.RGBA()
	var in, seen [3]float64
	for i, v := range []uint32{r, g, b} {
		if u := float64(v) / 0xFFFF; u <= 0.04045 {
			in[i] = u / 12.92
		} else {
			in[i] = math.Pow((u+0.055)/1.055, 2.4)
		}
	}
	for i := range seen {
		seen[i] = min(max(m[i][0]*in[0]+m[i][1]*in[1]+m[i][2]*in[2], 0), 1)
	}
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505)
	y := f(0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2])
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b [3]float64) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}
