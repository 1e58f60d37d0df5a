package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-sluice/sluice/internal/result"
)

// samples are the runs that every format must survive.
func samples() []sample {
	hostile := threeClasses()
	hostile.Tree = "<script>alert(1)</script>\x00\x1b[31m"
	hostile.Unit = `"><img src=x onerror=y>`
	hostile.Rows[1].Path = "<script>\"'&\x07</script>" + strings.Repeat("長い名前", 60)
	hostile.Rows[2].Path = "bad\xff\xfeutf8\u202e\n\r\t]]>-->"
	hostile.Rows[3].Path = `x" style="font-family:Liberation Sans;`
	hostile.Notes = []string{"</ul><script src=//evil.example></script>\x01"}

	odd := threeClasses()
	odd.Rows[0].Ceil, odd.Rows[1].Rate, odd.Rows[2].Ceil = math.Inf(1), math.NaN(), -1
	odd.Rows[3].Series.Fair[0] = math.NaN()
	odd.Rows[3].Series.Gets = odd.Rows[3].Series.Gets[:7]
	odd.Rows[4].Series = result.Series{}

	refused := makeRun(10, 3, []flow{{"a", 0, 0, false, steady(50, 1)}})
	allZero := makeRun(10, 3, []flow{{"a", 5, 10, false, steady(0, 1)}})
	flat := makeRun(10, 3, []flow{{"a", 5, 10, false, steady(8, 1)}})
	flat.Rows[0].Leaf, flat.Rows = true, flat.Rows[:1]
	day := thirtyClasses(500)
	day.Step, day.Seconds = 172.8, 172.8*500
	timeless := threeClasses()
	timeless.Seconds, timeless.Step = 0, 0
	short := makeRun(1000, 4, []flow{{"a", 500, 1000, false, steady(800, 3)}})
	short.Seconds = 3.25

	var noise []flow // moves at every step: the largest file there can be
	for i := range 30 {
		noise = append(noise, flow{fmt.Sprintf("class-%d", i), 100, 1000, false, steady(1e4, uint64(i))})
	}
	noisy := makeRun(1e9, 600, noise)
	for i := range noisy.Rows {
		for j := range noisy.Rows[i].Series.Gets {
			noisy.Rows[i].Series.Gets[j] = noisy.Rows[i].Series.Wants[j] / 10
			noisy.Rows[i].Series.Wants[j] = noisy.Rows[i].Series.Wants[(j+1)%600] / 10
		}
	}

	many := threeClasses()
	for range 40 {
		many.Rows = append(many.Rows, many.Rows[4])
	}
	return []sample{
		{"three", threeClasses()}, {"thirty", thirtyClasses(60)}, {"thousand", thirtyClasses(1000)},
		{"hostile", hostile}, {"odd", odd}, {"refused", refused}, {"day", day}, {"short", short},
		{"root alone", flat}, {"many", many}, {"noisy", noisy},
		{"one step", makeRun(1000, 1, []flow{{"a", 500, 1000, false, steady(800, 3)}, {"b", 5, 10, false, steady(800, 4)}})},
		{"empty", &result.Run{}}, {"all zero", allZero}, {"no time", timeless},
	}
}

type sample struct {
	name string
	run  *result.Run
}

// written is run in one format. Set SLUICE_PLOT_DIR to keep the files and look at them.
func written(t *testing.T, name, ext string, run *result.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, ext, run); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("SLUICE_PLOT_DIR"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+ext), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestSameBytesTwice(t *testing.T) {
	for _, ext := range Formats() {
		run := func() *result.Run { return thirtyClasses(60) }
		if ext == ".png" { // slow under the race detector
			run = func() *result.Run { return makeRun(10, 1, []flow{{"a", 5, 10, false, steady(8, 1)}}) }
		}
		if !bytes.Equal(written(t, "twice", ext, run()), written(t, "twice", ext, run())) {
			t.Errorf("%s differs from one time to the next", ext)
		}
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	for _, s := range samples() {
		svg := written(t, s.name, ".svg", s.run)
		if err := checkXML(svg); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s: a coordinate is no number", s.name)
		}
		if len(svg) > 3<<20 {
			t.Errorf("%s: %d bytes, want at most 3 MB", s.name, len(svg))
		}
	}
	for _, bad := range []string{"<svg><a></svg>", "<svg>\x01</svg>", "<svg><script/></svg>", `<svg onload=""/>`} {
		if checkXML([]byte(bad)) == nil {
			t.Errorf("checkXML takes %q", bad)
		}
	}
}

// checkXML reads all of b, and admits no element that a drawing does not need.
func checkXML(b []byte) error {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "svg", "g", "path", "text":
			default:
				return errors.New("unexpected element " + e.Name.Local)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
					return errors.New("unexpected attribute " + a.Name.Local)
				}
			}
		}
	}
}

func TestPNGHasTwiceTheSize(t *testing.T) {
	for _, s := range samples() {
		if !slices.Contains([]string{"hostile", "one step", "empty"}, s.name) && os.Getenv("SLUICE_PLOT_DIR") == "" {
			continue // minutes under the race detector, for the same drawing as the SVG's
		}
		img, err := png.Decode(bytes.NewReader(written(t, s.name, ".png", s.run)))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		p := newPicture(s.run)
		size, want := img.Bounds().Size(), int(math.Ceil(float64(p.height)/72*pngDPI))
		if size.X != 1920 || size.Y < want-1 || size.Y > want {
			t.Errorf("%s: %v, want 1920 x %d", s.name, size, want)
		}
	}
}

var (
	fetched  = regexp.MustCompile(`(?i)https?://|<script|<link|<iframe|<img|\bsrc=|\bhref=|url\(|@import| on[a-z]+="`)
	harmless = regexp.MustCompile(`\s(xmlns(:xlink)?|aria-label)="[^"]*"`)
)

func TestPageFetchesNothing(t *testing.T) {
	for _, s := range samples() {
		if len(s.run.Rows) > 10 && os.Getenv("SLUICE_PLOT_DIR") == "" {
			continue // more of the same paths, slow to search
		}
		page := written(t, s.name, ".html", s.run)
		if hit := fetched.Find(unescapedParts(page)); hit != nil {
			t.Errorf("%s: page contains %q", s.name, hit)
		}
		for i, b := range page {
			if (b < ' ' && b != '\n' && b != '\t') || b == 0x7F {
				t.Errorf("%s: control character %#x at %d", s.name, b, i)
				break
			}
		}
	}
	if !fetched.Match(unescapedParts([]byte(`<p>x</p><script>1</script>`))) {
		t.Error("the guard misses a script")
	}
}

// unescapedParts is the tags and style of a page: text between tags cannot fetch,
// and a name there may well look like an attribute.
func unescapedParts(page []byte) []byte {
	tags := regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`).FindAll(page, -1)
	return harmless.ReplaceAll(bytes.Join(tags, []byte("\n")), nil)
}

func TestPageTable(t *testing.T) {
	run := threeClasses()
	run.Rows[2].Rest = true
	page := string(written(t, "table", ".html", run))
	for _, want := range []string{
		"<title>api, police mode</title>",
		`<th scope="row" style="padding-left:2.5em">free/alice</th>`,
		"<td>200 each</td>",
		"<td>" + group(run.Rows[0].Wants) + "</td>",
		"<li>free/bob offered",
		"<svg ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(page, ">queued<") || strings.Contains(page, ">dropped<") {
		t.Error("a column of nothing but zeros")
	}
	run.Rows[3].Queued = 7
	if page := string(written(t, "table", ".html", run)); !strings.Contains(page, ">queued<") || !strings.Contains(page, "<td>7</td>") {
		t.Error("page lacks what is queued")
	}
	if strings.Contains(page, "<?xml") {
		t.Error("an XML prolog inside HTML")
	}
}

func TestNoTraffic(t *testing.T) {
	for _, s := range samples() {
		want := s.name == "empty" || s.name == "all zero" || s.name == "no time"
		if got := bytes.Contains(written(t, s.name, ".svg", s.run), []byte(">no traffic<")); got != want {
			t.Errorf("%s: says no traffic: %v, want %v", s.name, got, want)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Write(io.Discard, ".gif", threeClasses())
	if err == nil || !strings.Contains(err.Error(), `".gif"`) || !strings.Contains(err.Error(), ".html") {
		t.Errorf("%v names neither the mistake nor the remedy", err)
	}
	full := errors.New("disk full")
	for _, ext := range append(Formats(), ".SVG") {
		if err := Write(failing{full}, ext, threeClasses()); !errors.Is(err, full) {
			t.Errorf("%s: %v, want the writer's error", ext, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestBandsAddUpToTheRoot(t *testing.T) {
	for _, s := range []sample{{"three", threeClasses()}, {"thirty", thirtyClasses(60)}, {"thousand", thirtyClasses(1000)}} {
		b, line := newBands(s.run), newTimeline(s.run, stackPoints)
		tops, names, _ := b.pile(s.run, line)
		if len(tops) > len(hues) || len(names) != len(tops) {
			t.Fatalf("%s: %d bands, %d names", s.name, len(tops), len(names))
		}
		for i, want := range perSecond(line, s.run.Rows[0].Series.Gets) {
			if got := tops[len(tops)-1][i]; math.Abs(got-want) > 1e-6 {
				t.Fatalf("%s: point %d adds up to %g, the root got %g", s.name, i, got, want)
			}
		}
	}
}

func TestTimeline(t *testing.T) {
	series := []int64{10, 20, 30, 40, 50}
	for _, test := range []struct {
		seconds, step float64
		points        int
		edges, want   []float64
	}{
		{10, 2, 9, []float64{0, 2, 4, 6, 8, 10}, []float64{5, 10, 15, 20, 25}},
		{9, 2, 9, []float64{0, 2, 4, 6, 8, 9}, []float64{5, 10, 15, 20, 50}}, // cut short
		{10, 2, 3, []float64{0, 4, 8, 10}, []float64{7.5, 17.5, 25}},         // two steps a point
		{5, 0, 9, []float64{0, 1, 2, 3, 4, 5}, []float64{10, 20, 30, 40, 50}},
		{0, 0, 9, nil, nil},
	} {
		run := &result.Run{Seconds: test.seconds, Step: test.step, Rows: []result.Row{{Series: result.Series{Gets: series}}}}
		line := newTimeline(run, test.points)
		if !equal(line.edges, test.edges) {
			t.Errorf("%+v: edges %v", test, line.edges)
		} else if test.edges != nil && !equal(perSecond(line, series), test.want) {
			t.Errorf("%+v: rates %v", test, perSecond(line, series))
		}
	}
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9 {
			return false
		}
	}
	return true
}
