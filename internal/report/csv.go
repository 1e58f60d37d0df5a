package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"

	"github.com/go-sluice/sluice/internal/result"
)

// CSV writes one line per step and class: when the step begins, in seconds, and
// wants, gets and fair in cost units.
func CSV(w io.Writer, run *result.Run) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"time", "class", "wants", "gets", "fair"}) // Flush tells
	steps := 0
	for _, r := range run.Rows {
		steps = max(steps, len(r.Series.Gets))
	}
	for i := range steps {
		at := number(float64(i) * run.Step)
		for _, r := range run.Rows {
			_ = out.Write([]string{at, r.Path, strconv.FormatInt(r.Series.Wants[i], 10), strconv.FormatInt(r.Series.Gets[i], 10), number(r.Series.Fair[i])})
		}
	}
	out.Flush()
	return out.Error()
}

// round keeps a thousandth of a unit: beyond it lies only the noise of floating point.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func rounded(x []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = round(x[i])
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(round(x), 'f', -1, 64) }
