package plot

import (
	"image/color"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
)

var (
	titlePen = pen{sans(16, xfont.WeightBold), black}
	headPen  = pen{sans(11, xfont.WeightBold), black}
	bodyPen  = pen{sans(10, xfont.WeightNormal), dark}
	namePen  = pen{sans(9.5, xfont.WeightBold), black}
	smallPen = pen{sans(8.5, xfont.WeightNormal), dark}
)

// fonts are parsed at the first picture, not in every run of the program.
var fonts = sync.OnceValue(func() *font.Cache { return font.NewCache(liberation.Collection()) })

func sans(size vg.Length, weight xfont.Weight) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Weight: weight, Size: size}
}

// pen writes single lines; y is the baseline.
type pen struct {
	font  font.Font
	color color.Color
}

func (p pen) left(c vg.Canvas, x, y vg.Length, s string) {
	c.SetColor(p.color)
	c.FillString(fonts().Lookup(p.font, p.font.Size), vg.Point{X: x, Y: y}, s)
}

func (p pen) center(c vg.Canvas, x, y vg.Length, s string) { p.left(c, x-p.width(s)/2, y, s) }
func (p pen) right(c vg.Canvas, x, y vg.Length, s string)  { p.left(c, x-p.width(s), y, s) }

// width is how long s gets. What the font lacks the browser takes from another
// one, up to a full em wide, so it counts as that.
func (p pen) width(s string) vg.Length {
	face := fonts().Lookup(p.font, p.font.Size)
	w := face.Width(s)
	for _, r := range s {
		if !has(face, r) {
			w += p.font.Size / 3
		}
	}
	return w
}

func has(face font.Face, r rune) bool {
	i, err := face.Face.GlyphIndex(nil, r)
	return err == nil && i != 0
}

// shorten cuts the middle out of s until it fits: paths differ at both ends.
func (p pen) shorten(s string, room vg.Length) string {
	if p.width(s) <= room {
		return s
	}
	runes := []rune(s)
	cut := func(keep int) string {
		return string(runes[:keep-keep/2]) + "…" + string(runes[len(runes)-keep/2:])
	}
	low, high := 1, len(runes)
	for low+1 < high {
		if mid := (low + high) / 2; p.width(cut(mid)) <= room {
			low = mid
		} else {
			high = mid
		}
	}
	return cut(low)
}

// clean makes a name from outside one visible line: control characters, line
// breaks and marks that reverse text become escapes, broken UTF-8 becomes �.
// XML allows no control characters at all, escaped or not.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// magnitude is what to divide v by, and the suffix that says so. Thousands
// start at 10k: 1200 reads better than 1.2k.
func magnitude(v float64) (div float64, suffix string) {
	switch {
	case v >= 1e12:
		return 1e12, "T"
	case v >= 1e9:
		return 1e9, "G"
	case v >= 1e6:
		return 1e6, "M"
	case v >= 1e4:
		return 1e3, "k"
	}
	return 1, ""
}

// compact writes v with four significant digits: 400, 0.278, 12.35k.
func compact(v float64) string {
	div, suffix := magnitude(v)
	return trim(v/div) + suffix
}

// trim writes v with four significant digits and no trailing zeros.
func trim(v float64) string {
	if v = finite(v); v == 0 {
		return "0"
	}
	digits := min(max(3-int(math.Floor(math.Log10(v))), 0), 9)
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// group writes v with thousands separators.
func group(v int64) string {
	s := strconv.FormatInt(v, 10)
	sign := ""
	if v < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// number writes v with thousands separators, with decimals only below 100.
func number(v float64) string {
	if v = finite(v); v < 100 {
		return trim(v)
	}
	return group(int64(math.Round(min(v, 1<<62))))
}
