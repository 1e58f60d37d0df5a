package plot

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/go-sluice/sluice/internal/result"
)

// pageData is a page: the picture inline, and tables for whoever cannot see it or wants
// the numbers.
type pageData struct {
	Title, Summary string
	Picture        template.HTML
	Tables         []pageTable
	Notes          []string
}

type pageTable struct {
	Caption, First string // First is above the heads of the rows
	Columns        []string
	Rows           []pageRow
}

type pageRow struct {
	Path  string
	Depth int
	Cells []string
}

// writePage writes one HTML file that needs nothing else.
func writePage(w io.Writer, d document) error {
	var svg bytes.Buffer
	if err := writeSVG(&svg, d.picture); err != nil {
		return err
	}
	data := d.page()
	// Inside HTML an XML prolog is an error.
	data.Picture = template.HTML(svg.Bytes()[bytes.Index(svg.Bytes(), []byte("<svg")):])
	return page.Execute(w, data)
}

// runPage has every class in a table.
func runPage(run *result.Run) pageData {
	t := pageTable{First: "class", Caption: fmt.Sprintf("Rate and ceil in %s per second, the rest in %[1]s over the whole run. Rows include the classes below them, except for own, borrows and lends.", unit(run))}
	if shaped(run) {
		t.Caption += " Columns in ms are the time in the queue of what was released."
	}
	var shown []column
	for _, col := range columns {
		if col.shown(run) {
			shown = append(shown, col)
			t.Columns = append(t.Columns, col.Name)
		}
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		row := pageRow{Path: clean(r.Path), Depth: r.Depth}
		for _, col := range shown {
			row.Cells = append(row.Cells, col.cell(r))
		}
		t.Rows = append(t.Rows, row)
	}
	data := pageData{Title: title(run), Summary: summary(run), Tables: []pageTable{t}}
	for _, n := range run.Notes {
		data.Notes = append(data.Notes, clean(n))
	}
	return data
}

// column is one column of the table.
type column struct {
	Name string
	when when
	cell func(*result.Row) string
}

// when says which runs have a column.
type when int

const (
	always  when = iota
	nonzero      // where it is not zero throughout: what only the shaper counts
	shaping      // where classes queue: there a delay of zero is news
)

func (c column) shown(run *result.Run) bool {
	switch c.when {
	case nonzero:
		return slices.ContainsFunc(run.Rows, func(r result.Row) bool { return c.cell(&r) != "0" })
	case shaping:
		return shaped(run)
	}
	return true
}

var columns = []column{
	{"rate", always, func(r *result.Row) string { return limit(r.Rate, r.Rest) }},
	{"ceil", always, func(r *result.Row) string { return limit(r.Ceil, r.Rest) }},
	{"wants", always, func(r *result.Row) string { return group(r.Wants) }},
	{"gets", always, func(r *result.Row) string { return group(r.Gets) }},
	{"rejected", always, func(r *result.Row) string { return group(r.Rejected) }},
	{"dropped", nonzero, func(r *result.Row) string { return group(r.Dropped) }},
	{"expired", nonzero, func(r *result.Row) string { return group(r.Expired) }},
	{"queued", nonzero, func(r *result.Row) string { return group(r.Queued) }},
	{"p50 ms", shaping, func(r *result.Row) string { return waited(r, r.Delay.P50) }},
	{"p99 ms", shaping, func(r *result.Row) string { return waited(r, r.Delay.P99) }},
	{"max ms", shaping, func(r *result.Row) string { return waited(r, r.Delay.Max) }},
	{"own", always, func(r *result.Row) string { return group(r.Own) }},
	{"borrows", always, func(r *result.Row) string { return group(r.Borrows) }},
	{"lends", always, func(r *result.Row) string { return group(r.Lends) }},
	{"fair", always, func(r *result.Row) string { return number(math.Round(finite(r.Fair))) }},
}

// waited tells no delay from nothing released.
func waited(r *result.Row, v float64) string {
	if r.Gets == 0 {
		return "–"
	}
	return millis(v)
}

// limit says so where it is one child's and the rest of the row all children's.
func limit(v float64, each bool) string {
	if each {
		return number(v) + " each"
	}
	return number(v)
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, Arial, sans-serif; margin: 1.5rem auto; max-width: 64rem; padding: 0 1rem; }
figure { margin: 0 0 1.5rem; background: #fff; border-radius: 4px; }
figure svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; margin-bottom: 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid #8886; white-space: nowrap; }
th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 9em; }
tbody th { font-weight: normal; }
</style>
</head>
<body>
<figure role="img" aria-label="{{.Title}}: {{.Summary}}. The table below has the numbers.">
{{.Picture}}</figure>
{{- range .Tables}}
<div class="wide">
<table>
<caption>{{.Caption}}</caption>
<thead><tr><th scope="col">{{.First}}</th>{{range .Columns}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>
{{- range .Rows}}
<tr><th scope="row" style="padding-left:{{.Depth}}.5em">{{.Path}}</th>{{range .Cells}}<td>{{.}}</td>{{end}}</tr>
{{- end}}
</tbody>
</table>
</div>
{{- end}}
{{- if .Notes}}
<h2>Notes</h2>
<ul>
{{- range .Notes}}
<li>{{.}}</li>
{{- end}}
</ul>
{{- end}}
</body>
</html>
`))
