package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/go-sluice/sluice/internal/plan"
	"github.com/go-sluice/sluice/internal/result"
)

// Plan writes what limits would have refused which share of each class's requests.
func Plan(w io.Writer, p *plan.Plan, unit string, look Look) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s requests in %s, costs in %s\n", group(p.Requests), span(p.Seconds), unit)
	t := newTable(&b, look.Colour)
	header := table.Row{"class", "requests", "units/s", "largest"}
	for _, s := range plan.Shares {
		header = append(header, "refuses "+plan.Percent(s), "burst")
	}
	header = append(header, "planned", "burst", "refuses")
	t.AppendHeader(header)
	for i := range p.Classes {
		c := &p.Classes[i]
		name := indent(c.Name(), 0)
		if c.Template() {
			name += fmt.Sprintf(" (each of %s names)", group(int64(c.Names)))
		}
		row := table.Row{name, group(c.Requests), perSecond(c.Units, p.Seconds), group(c.Largest)}
		for _, f := range c.Fits {
			if f.Over() {
				row = append(row, "no rate", group(f.Limit.Burst))
				continue
			}
			row = append(row, f.Limit.Rate.String(), group(f.Limit.Burst))
		}
		planned := c.Planned.Limit.Rate.String()
		if c.Planned.Over() {
			planned = "no rate"
		}
		t.AppendRow(append(row, planned, group(c.Planned.Limit.Burst), plan.Percent(c.Recorded)))
	}
	right(t, header)
	t.Render()
	fmt.Fprintf(&b, "planned is what refuses %s when all comes %v times as fast\n", plan.Percent(p.Refuse), p.Growth)
	Notes(&b, &result.Run{Notes: p.Notes})
	_, err := w.Write(b.Bytes())
	return err
}

type jsonPlan struct {
	Unit     string              `json:"unit"`
	Seconds  float64             `json:"seconds"`
	Requests int64               `json:"requests"`
	Refuse   float64             `json:"refuse"`
	Growth   float64             `json:"growth"`
	Classes  map[string]jsonFits `json:"classes"`
}

type jsonFits struct {
	Names    int       `json:"names"` // 0 for a class with limits of its own
	Requests int64     `json:"requests"`
	Units    int64     `json:"units"`
	Largest  int64     `json:"largest"`
	Limits   []jsonFit `json:"limits"`
	Planned  jsonFit   `json:"planned"` // refused of what comes growth times as fast
}

type jsonFit struct {
	Asked   float64 `json:"asked"`
	Rate    string  `json:"rate"`
	Burst   int64   `json:"burst"`
	Refused float64 `json:"refused"`
}

func fit(f plan.Fit) jsonFit {
	return jsonFit{f.Asked, f.Limit.Rate.String(), f.Limit.Burst, f.Refused}
}

// PlanJSON writes a plan: shares from 0 to 1, rates as a tree file has them.
func PlanJSON(w io.Writer, p *plan.Plan, unit string) error {
	out := jsonPlan{Unit: unit, Seconds: p.Seconds, Requests: p.Requests, Refuse: p.Refuse, Growth: p.Growth, Classes: map[string]jsonFits{}}
	for i := range p.Classes {
		c := &p.Classes[i]
		j := jsonFits{Names: c.Names, Requests: c.Requests, Units: c.Units, Largest: c.Largest, Planned: fit(c.Planned)}
		for _, f := range c.Fits {
			j.Limits = append(j.Limits, fit(f))
		}
		out.Classes[c.Name()] = j
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}
