package report

import (
	"encoding/json"
	"io"

	"github.com/go-sluice/sluice/internal/result"
)

type jsonRun struct {
	Tree    string               `json:"tree"`
	Mode    string               `json:"mode"`
	Seconds float64              `json:"seconds"`
	Step    float64              `json:"step"`
	Unit    string               `json:"unit"`
	Classes map[string]jsonClass `json:"classes"`

	Gateways *jsonGateways `json:"gateways,omitempty"`
}

type jsonClass struct {
	Wants    int64      `json:"wants"`
	Gets     int64      `json:"gets"`
	Rejected int64      `json:"rejected"`
	Dropped  int64      `json:"dropped"`
	Expired  int64      `json:"expired"`
	Queued   int64      `json:"queued"`
	Own      int64      `json:"own"`
	Borrows  int64      `json:"borrows"`
	Lends    int64      `json:"lends"`
	Fair     float64    `json:"fair"`
	Delay    jsonDelay  `json:"delay_ms"`
	Series   jsonSeries `json:"series"`
}

type jsonDelay struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type jsonSeries struct {
	Wants []int64   `json:"wants"`
	Gets  []int64   `json:"gets"`
	Fair  []float64 `json:"fair"`
}

// JSON writes the run in htbsim's format: cost units throughout, every class, one
// entry of a series per step. Classes stand in the order of their paths.
func JSON(w io.Writer, run *result.Run) error {
	out := jsonRun{Tree: run.Tree, Mode: run.Mode, Seconds: run.Seconds, Step: run.Step, Unit: run.Unit, Classes: make(map[string]jsonClass, len(run.Rows))}
	for _, r := range run.Rows {
		out.Classes[r.Path] = jsonClass{
			Wants: r.Wants, Gets: r.Gets, Rejected: r.Rejected, Dropped: r.Dropped, Expired: r.Expired, Queued: r.Queued,
			Own: r.Own, Borrows: r.Borrows, Lends: r.Lends, Fair: round(r.Fair),
			Delay:  jsonDelay(r.Delay),
			Series: jsonSeries{Wants: list(r.Series.Wants), Gets: list(r.Series.Gets), Fair: rounded(r.Series.Fair)},
		}
	}
	out.Gateways = gatewaysOf(run)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}

// list makes [] of none, where JSON would make null.
func list(x []int64) []int64 {
	if x == nil {
		return []int64{}
	}
	return x
}
