// Package plot draws a finished run: what the leaves got as a stack over time,
// how long each class queued it where the run shapes, then one panel per class
// with what it wanted, its ideal share and its limits. Of flat algorithms side by
// side it draws what each let through, and the promise as an envelope.
// The same run gives the same bytes: nothing here reads a clock or ranges over a map.
package plot

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/go-sluice/sluice/internal/result"
)

// Formats lists the endings that Write knows.
func Formats() []string { return []string{".svg", ".png", ".html"} }

// Write draws run into w in the format that ext names, one of Formats. Class
// names may be hostile: none reaches the output unescaped.
func Write(w io.Writer, ext string, run *result.Run) error {
	return write(w, ext, document{newPicture(run), func() pageData { return runPage(run) }})
}

// document is a picture, and what a page says beside it.
type document struct {
	*picture
	page func() pageData
}

func write(w io.Writer, ext string, d document) error {
	var err error
	switch strings.ToLower(ext) {
	case ".svg":
		err = writeSVG(w, d.picture)
	case ".png":
		err = writePNG(w, d.picture)
	case ".html":
		err = writePage(w, d)
	default:
		return fmt.Errorf("plot: unknown format %q: want one of %s", ext, strings.Join(Formats(), ", "))
	}
	if err != nil {
		return fmt.Errorf("plot: writing %s: %w", ext, err)
	}
	return nil
}

// Fonts are named and not embedded, which would add half a megabyte. Arial has
// the metrics of Liberation Sans, so the text fits where only that is installed.
const (
	fontNamed    = `style="font-family:Liberation Sans;`
	fontFallback = `style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`
)

func writeSVG(w io.Writer, p *picture) error {
	c := vgsvg.New(p.width, p.height)
	p.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	// A quote in a name is escaped by now, so this finds only our own attributes.
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte(fontNamed), []byte(fontFallback)))
	return err
}

// pngDPI is twice what a browser takes for a point, so that the PNG is sharp
// on dense screens: 1920 pixels for a picture of 960.
const pngDPI = 2 * 96

func writePNG(w io.Writer, p *picture) error {
	c := vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(pngDPI))
	p.draw(draw.New(boxes{c}))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// boxes shows as a box every character that our font lacks. In an SVG the
// browser finds another font; in an image they would be gone, and two names one.
type boxes struct{ *vgimg.Canvas }

func (b boxes) FillString(f font.Face, at vg.Point, s string) {
	b.Canvas.FillString(f, at, strings.Map(func(r rune) rune {
		if has(f, r) {
			return r
		}
		return '□'
	}, s))
}
