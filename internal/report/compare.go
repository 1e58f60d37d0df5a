package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/go-sluice/sluice/internal/result"
)

// Comparisons writes a table for each, a line per algorithm.
func Comparisons(w io.Writer, all []*result.Comparison, look Look) error {
	var b bytes.Buffer
	for i, c := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\npromised: %s, burst %s, so in any window of length w at most %d + %s * w; costs in %s\n", c.Load, c.Rate, group(c.Burst), c.Burst, c.Rate, c.Unit)
		t := newTable(&b, look.Colour)
		header := table.Row{"algorithm", "set to", "accepted", "rejected", "most above rate*w", "of burst", "in a window of", "longest delay", "state"}
		t.AppendHeader(header)
		for _, r := range c.Rows {
			t.AppendRow(table.Row{
				r.Name, r.Set, group(r.Accepted), group(r.Rejected), Above(r.Worst),
				OfBurst(r.Worst, c.Burst), Window(r.Worst), Delay(r.Delay), group(int64(r.State)) + " B",
			})
		}
		right(t, header)
		if look.Colour {
			t.SetRowPainter(func(_ table.Row, at table.RowAttributes) text.Colors {
				if n := at.Number - 1; n < len(c.Rows) && c.Rows[n].Worst.Broken {
					return text.Colors{text.FgYellow}
				}
				return nil
			})
		}
		t.Render()
		ComparisonNotes(&b, c)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// ComparisonNotes writes what is to be said of a comparison beside its numbers.
func ComparisonNotes(w io.Writer, c *result.Comparison) { Notes(w, &result.Run{Notes: c.Notes}) }

// Above writes the most that a window had above rate*w, "-" if nothing passed.
func Above(w result.Window) string {
	if w.Units == 0 {
		return "-"
	}
	whole, tenth := math.Modf(math.Round(10*w.Above) / 10)
	if tenth == 0 {
		return group(int64(whole))
	}
	return group(int64(whole)) + strings.TrimPrefix(strconv.FormatFloat(tenth, 'f', 1, 64), "0")
}

// OfBurst writes it as a share of the burst: at most 100.0% exactly when the promise is kept.
func OfBurst(w result.Window, burst int64) string {
	if w.Units == 0 {
		return "-"
	}
	if s := percent(w.Above, float64(burst)); !w.Broken || w.Above >= 1.0005*float64(burst) {
		return s
	}
	return ">100.0%"
}

// Window writes how long that window is, "-" if nothing passed.
func Window(w result.Window) string {
	switch {
	case w.Units == 0:
		return "-"
	case w.Seconds == 0:
		return "at once"
	}
	return short(time.Duration(w.Seconds*1e9 + 0.5))
}

// Delay writes milliseconds as a time.
func Delay(ms float64) string { return short(time.Duration(ms*1e6 + 0.5)) }

// short writes a duration with five digits.
func short(d time.Duration) string {
	digit := time.Duration(1)
	for d/digit >= 100_000 {
		digit *= 10
	}
	return d.Round(digit).String()
}

type jsonComparison struct {
	Load       string              `json:"load"`
	Unit       string              `json:"unit"`
	Rate       string              `json:"rate"`
	Burst      int64               `json:"burst"`
	Seconds    float64             `json:"seconds"`
	Step       float64             `json:"step"`
	Wants      int64               `json:"wants"`
	Algorithms map[string]jsonFlat `json:"algorithms"`
	Series     jsonArrived         `json:"series"`
}

type jsonArrived struct {
	Wants    []int64   `json:"wants"`
	Promised []float64 `json:"promised"`
}

type jsonFlat struct {
	Name     string     `json:"name"`
	Set      string     `json:"set"`
	Accepted int64      `json:"accepted"`
	Rejected int64      `json:"rejected"`
	Worst    jsonWindow `json:"worst"`
	Delay    float64    `json:"delay_ms"`
	State    int        `json:"state_bytes"`
	Series   []int64    `json:"series"`
}

type jsonWindow struct {
	Units   int64   `json:"units"`
	Seconds float64 `json:"seconds"`
	Above   float64 `json:"above"` // units - rate*seconds, the most of any window
	Kept    bool    `json:"kept"`  // it is at most the burst
}

// ComparisonsJSON writes a list with an object for each: cost units throughout, one entry
// of a series per step, what came until its end.
func ComparisonsJSON(w io.Writer, all []*result.Comparison) error {
	var out []jsonComparison
	for _, c := range all {
		j := jsonComparison{Load: c.Load, Unit: c.Unit, Rate: c.Rate, Burst: c.Burst, Seconds: c.Seconds, Step: c.Step, Wants: c.Wants,
			Algorithms: map[string]jsonFlat{}, Series: jsonArrived{list(c.Arrived), rounded(c.Promised)}}
		for _, r := range c.Rows {
			j.Algorithms[r.Flag] = jsonFlat{r.Name, r.Set, r.Accepted, r.Rejected, window(r.Worst), r.Delay, r.State, list(r.Series)}
		}
		out = append(out, j)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}

func window(w result.Window) jsonWindow { return jsonWindow{w.Units, w.Seconds, w.Above, !w.Broken} }

// ComparisonsCSV writes one line per step and algorithm: which load, from 1, when the
// step ends, in seconds, and what came, what was let through and what any limiter could
// have that keeps the promise, until then.
func ComparisonsCSV(w io.Writer, all []*result.Comparison) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"load", "time", "algorithm", "wants", "accepted", "promised"}) // Flush tells
	for k, c := range all {
		for i := range c.Arrived {
			for _, r := range c.Rows {
				_ = out.Write([]string{strconv.Itoa(k + 1), number(float64(i+1) * c.Step), r.Flag,
					strconv.FormatInt(c.Arrived[i], 10), strconv.FormatInt(r.Series[i], 10), number(c.Promised[i])})
			}
		}
	}
	out.Flush()
	return out.Error()
}
