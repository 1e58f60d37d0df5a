package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// browser finds one that can take a picture of a page without a screen.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser here: install chromium")
	return ""
}

// shot is what the browser shows of a file in a window of that size, in CSS pixels, with
// two pixels to each.
func shot(t *testing.T, browser, path string, width, height int) image.Image {
	dir := t.TempDir()
	out := filepath.Join(dir, "shot.png")
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--force-device-scale-factor=2", "--user-data-dir="+filepath.Join(dir, "profile"),
		fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+out, "file://"+path)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	f, err := os.Open(out)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	return img
}

// apart is how different two pictures are, one of them from a corner on: the mean
// difference of squares of 24 pixels, which letters of another font do not change much,
// from 0 to 1.
func apart(a, b image.Image, corner image.Point) (mean float64) {
	const square = 24
	size := a.Bounds().Size()
	n := 0
	for y := 0; y+square <= size.Y; y += square {
		for x := 0; x+square <= size.X; x += square {
			var sum [3]float64
			for dy := range square {
				for dx := range square {
					r1, g1, b1, _ := a.At(x+dx, y+dy).RGBA()
					r2, g2, b2, _ := b.At(corner.X+x+dx, corner.Y+y+dy).RGBA()
					sum[0] += float64(r1) - float64(r2)
					sum[1] += float64(g1) - float64(g2)
					sum[2] += float64(b1) - float64(b2)
				}
			}
			for _, v := range sum {
				mean += math.Abs(v) / square / square / 0xFFFF
				n++
			}
		}
	}
	return mean / float64(n)
}

// A browser shows of the SVG, and of the page, what the PNG has.
func TestSamePictureInABrowser(t *testing.T) {
	exe := browser(t)
	dir := t.TempDir()
	if keep := os.Getenv("SLUICE_PLOT_DIR"); keep != "" {
		dir = keep
	}
	all := comparisons()
	var want image.Image
	for _, ext := range []string{".png", ".svg", ".html"} {
		var b bytes.Buffer
		require.NoError(t, WriteComparisons(&b, ext, all))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "compare"+ext), b.Bytes(), 0o644))
		if ext == ".png" {
			img, err := png.Decode(&b)
			require.NoError(t, err)
			want = img
		}
	}
	size := want.Bounds().Size().Div(2)
	// A page is as wide as its picture and margins of 16, which begins 24 from the top.
	svg := shot(t, exe, filepath.Join(dir, "compare.svg"), size.X, size.Y)
	page := shot(t, exe, filepath.Join(dir, "compare.html"), size.X+32, size.Y+1000)
	for name, got := range map[string]struct {
		image.Image
		corner image.Point
	}{"svg": {svg, image.Point{}}, "html": {page, image.Pt(32, 48)}} {
		mean := apart(want, got, got.corner)
		t.Logf("%s: differs from the PNG by %.2f %%", name, 100*mean)
		require.Less(t, mean, 0.01, name)
	}
	require.Greater(t, apart(want, page, image.Pt(32, 200)), 0.015, "the guard sees a shifted one")
}
