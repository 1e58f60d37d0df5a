package plot

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/go-sluice/sluice/internal/result"
)

// inShape is run as the shaper could have measured it: from no delay in the
// first row below the root to seconds, each row longer than the last.
func inShape(run *result.Run) *result.Run {
	run.Mode = "shape"
	for i := range run.Rows {
		if i > 1 {
			p50 := 0.12 * math.Pow(1.3, float64(i))
			run.Rows[i].Delay = result.Delay{P50: p50, P99: 6 * p50, Max: 9.5 * p50}
		}
	}
	return run
}

const delayTitle = ">Time in the queue of what was released"

func TestPolicePictureHasNoDelays(t *testing.T) {
	for _, ext := range []string{".svg", ".html"} {
		run := inShape(threeClasses())
		run.Mode = "police"
		got := written(t, "police", ext, run)
		if !bytes.Equal(got, written(t, "police", ext, threeClasses())) || bytes.Contains(got, []byte(delayTitle)) {
			t.Errorf("%s: delays change the picture of a police run", ext)
		}
	}
	if n := len(newPicture(threeClasses()).parts); n != 3 {
		t.Errorf("a police picture has %d parts, want head, stack and panels", n)
	}
}

func TestShapePictureHasDelays(t *testing.T) {
	run := inShape(threeClasses())
	run.Rows[1].Delay = result.Delay{P50: 1.2, P99: 8, Max: 12.54}
	run.Rows[4].Delay = result.Delay{P50: 0.0456, P99: 940, Max: 10278.4}
	svg := string(written(t, "delays", ".svg", run))
	for _, want := range []string{delayTitle, ">p50<", ">p99<", ">max ms<", ">1.2<", ">8<", ">12.5<", ">0.0456<", ">940<", ">10,278<",
		">0<", ">10 µs<", ">0.1 ms<", ">1 ms<", ">10 s<", ">100 s<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("picture lacks %q", want)
		}
	}
	for _, path := range []string{"acme", "free", "free/alice", "free/bob"} {
		if rows := 1 + strings.Count(string(written(t, "police", ".svg", threeClasses())), ">"+path+"<"); strings.Count(svg, ">"+path+"<") != rows {
			t.Errorf("%s: %d times in the picture, want %d", path, strings.Count(svg, ">"+path+"<"), rows)
		}
	}
	stacked, delay, panels := strings.Index(svg, ">What the leaves got"), strings.Index(svg, delayTitle), strings.Index(svg, ">Each class on a scale")
	if stacked > delay || delay > panels {
		t.Error("the delays are not between the stack and the panels")
	}
	if !bytes.Equal([]byte(svg), written(t, "delays", ".svg", run)) {
		t.Error("the picture differs from one time to the next")
	}
}

func TestDelayColumns(t *testing.T) {
	run := inShape(threeClasses())
	run.Rows[1].Delay = result.Delay{P50: 1.2, P99: 8, Max: 1234.5}
	run.Rows[2].Delay = result.Delay{}
	run.Rows[4].Gets = 0
	page := string(written(t, "columns", ".html", run))
	for _, want := range []string{">p50 ms</th>", ">p99 ms</th>", ">max ms</th>", "<td>1.2</td><td>8</td><td>1,235</td>",
		"<td>0</td><td>0</td><td>0</td>", "<td>–</td><td>–</td><td>–</td>", "Columns in ms are"} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for i := range run.Rows {
		run.Rows[i].Delay = result.Delay{}
	}
	if page := string(written(t, "columns", ".html", run)); !strings.Contains(page, ">p50 ms</th>") {
		t.Error("page of a run without any delay lacks the columns that say so")
	}
}

// TestShapedSamples puts every sample, hostile names and all, through shape mode.
func TestShapedSamples(t *testing.T) {
	for _, s := range samples() {
		run := inShape(s.run)
		for i := range run.Rows {
			switch d := &run.Rows[i].Delay; {
			case s.name == "odd":
				*d = result.Delay{P50: math.NaN(), P99: math.Inf(1), Max: -3}
			case s.name == "thousand":
				*d = result.Delay{P50: 1e-7, P99: 1e300, Max: math.MaxFloat64}
			case s.name == "many":
				*d = result.Delay{}
			}
		}
		svg := written(t, "shaped "+s.name, ".svg", run)
		if err := checkXML(svg); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s: a coordinate is no number", s.name)
		}
		rows, _ := delayRows(run)
		if got := bytes.Contains(svg, []byte(delayTitle)); got != (len(rows) > 0 && traffic(run)) {
			t.Errorf("%s: delays drawn: %v, with %d rows", s.name, got, len(rows))
		}
		if len(run.Rows) > 10 {
			continue
		}
		if hit := fetched.Find(unescapedParts(written(t, "shaped "+s.name, ".html", run))); hit != nil {
			t.Errorf("%s: page contains %q", s.name, hit)
		}
	}
}

func TestDelayRows(t *testing.T) {
	run := inShape(thirtyClasses(60))
	run.Rows[3].Gets = 0
	rows, left := delayRows(run)
	shown, panelsLeft := panelRows(run)
	if len(shown) != maxPanels || panelsLeft != 0 {
		t.Fatalf("the sample has %d panels and %d more", len(shown), panelsLeft)
	}
	if len(rows) != maxPanels-1 || left != 0 {
		t.Errorf("%d lines and %d left out, want one less than panels and none", len(rows), left)
	}
	for k, i := range rows {
		if i == 0 || i == 3 || k > 0 && i <= rows[k-1] {
			t.Errorf("rows %v: root, empty or out of order", rows)
		}
	}
	for range 12 { // one of them beats the row that released nothing
		run.Rows = append(run.Rows, run.Rows[1])
	}
	if rows, left = delayRows(run); len(rows) != maxPanels || left != 11 {
		t.Errorf("%d lines and %d left out, want %d and 11", len(rows), left, maxPanels)
	}
	if svg := written(t, "delays left", ".svg", run); bytes.Count(svg, []byte("Classes not shown")) != 2 {
		t.Error("the picture does not say that delays are left out")
	}
}

func TestDelayScale(t *testing.T) {
	for _, test := range []struct {
		d         result.Delay
		low, high int
	}{
		{result.Delay{P50: 0.1, P99: 10, Max: 1e4}, -1, 4},
		{result.Delay{P50: 0, P99: 1000, Max: 1000}, 3, 4},
		{result.Delay{P50: 0.2, P99: 1.5, Max: 11}, -1, 2},
		{result.Delay{}, -1, 1},
		{result.Delay{P50: math.NaN(), P99: math.Inf(1), Max: -1}, -1, 1},
		{result.Delay{P50: 1e-9, P99: 1, Max: 1e300}, lowestPower, highestPower},
		{result.Delay{P50: 1e300, P99: 1e300, Max: 1e300}, highestPower - 1, highestPower},
	} {
		run := &result.Run{Rows: []result.Row{{Delay: test.d}}}
		s := newDelayScale(run, []int{0})
		if s.low != test.low || s.high != test.high {
			t.Errorf("%v: from 10^%d to 10^%d, want %d and %d", test.d, s.low, s.high, test.low, test.high)
		}
		s.Canvas = draw.NewCanvas(new(recorder.Canvas), 400, 100)
		last := vg.Length(0)
		for _, v := range []float64{0, math.Pow10(s.low), math.Pow10(s.high), math.MaxFloat64} {
			if x := s.x(v); x < last || x > 400.001 {
				t.Errorf("%v: %v ms lies at %v, after %v", test.d, v, x, last)
			} else {
				last = x
			}
		}
		if s.x(0) != 0 || s.x(math.NaN()) != 0 || s.x(-1) != 0 || math.Abs(float64(s.x(math.Pow10(s.low))-zeroRoom)) > 1e-6 {
			t.Errorf("%v: zero is not at the left edge, apart from the rest", test.d)
		}
	}
}

// TestZeroDelayShows wants a bar where all quantiles are one point.
func TestZeroDelayShows(t *testing.T) {
	var rec recorder.Canvas
	delayMark(draw.NewCanvas(&rec, 400, 100), delaySpan{}, 50, others)
	var filled bool
	for _, a := range rec.Actions {
		if f, ok := a.(*recorder.Fill); ok {
			filled = true
			if f.Path[0].Pos.X != 0 || f.Path[1].Pos.X < 2 {
				t.Errorf("bar from %v to %v", f.Path[0].Pos.X, f.Path[1].Pos.X)
			}
		}
	}
	if !filled {
		t.Error("no bar")
	}
}

func TestDelayNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.2: "1.2", 33.552: "33.6", 0.0456: "0.0456", 1e-6: "0.000001", 1e-12: "0", 99.96: "100",
		940.4: "940", 10278: "10,278", math.Inf(1): "0", math.MaxFloat64: group(1 << 62)} {
		if got := millis(v); got != want {
			t.Errorf("millis(%v) = %s, want %s", v, got, want)
		}
	}
	var all []string
	for e := lowestPower; e <= 7; e++ {
		all = append(all, powerLabel(e))
	}
	if got, want := strings.Join(all, ", "), "1 µs, 10 µs, 0.1 ms, 1 ms, 10 ms, 100 ms, 1 s, 10 s, 100 s, 1000 s, 10k s"; got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
	if s := fmt.Sprint(inShape(threeClasses()).Rows[1].Delay); s != "{0 0 0}" {
		t.Errorf("the sample lacks a row without delay: %s", s)
	}
}
