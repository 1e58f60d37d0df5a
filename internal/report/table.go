package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
)

// Table writes the run for a reader: a line per class, children indented below
// their parent, then totals and notes.
func Table(w io.Writer, run *result.Run, colour bool) {
	t := newTable(w, colour)
	header := table.Row{"class", "rate/s", "ceil/s", "wants", "gets", "gets/s", "rejected", "own", "borrows", "lends", "fair", "gets/fair"}
	t.AppendHeader(header)
	for _, r := range run.Rows {
		t.AppendRow(table.Row{
			indent(r.Path, r.Depth), amount(r.Rate), amount(r.Ceil),
			group(r.Wants), group(r.Gets), amount(float64(r.Gets) / max(run.Seconds, 1e-9)), group(r.Rejected),
			group(r.Own), group(r.Borrows), group(r.Lends), group(int64(math.Round(r.Fair))), percent(float64(r.Gets), r.Fair),
		})
	}
	right(t, header)
	if colour {
		t.SetRowPainter(func(row table.Row, at table.RowAttributes) text.Colors {
			if at.Number-1 < len(run.Rows) {
				switch r := run.Rows[at.Number-1]; {
				case r.Depth == 0:
					return text.Colors{text.Bold}
				case r.Rejected > 0:
					return text.Colors{text.FgYellow}
				}
			}
			return nil
		})
	}
	fmt.Fprintf(w, "tree %s, mode %s, %s of traffic, costs in %s\n", run.Tree, run.Mode, span(run.Seconds), run.Unit)
	t.Render()
	if len(run.Rows) > 0 {
		root := run.Rows[0]
		fmt.Fprintf(w, "total: %s of %s %s wanted were let through (%s), %s rejected; the ideal allocation gives %s\n",
			group(root.Gets), group(root.Wants), run.Unit, percent(float64(root.Gets), float64(root.Wants)), group(root.Rejected), group(int64(math.Round(root.Fair))))
	}
	for _, n := range run.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// Classes writes a tree with every default filled in, as `htbsim check` shows it.
func Classes(w io.Writer, tree, unit string, root htb.Spec, colour bool) {
	t := newTable(w, colour)
	header := table.Row{"class", "rate", "burst", "ceil", "cburst", "prio", "quantum", "remarks"}
	t.AppendHeader(header)
	count := 0
	var walk func(s htb.Spec, path []string)
	walk = func(s htb.Spec, path []string) {
		count++
		var remarks []string
		for _, l := range s.Also {
			remarks = append(remarks, fmt.Sprintf("also %v burst %s", l.Rate, group(l.Burst)))
		}
		if s.Name == htb.Template && len(path) > 0 {
			remarks = append(remarks, fmt.Sprintf("template, at most %s children", group(int64(s.Max))))
		}
		if s.Oversubscribed {
			remarks = append(remarks, "oversubscribed: guarantees below are best effort")
		}
		t.AppendRow(table.Row{indent(htb.Mistake{Path: path}.Where(), len(path)), s.Rate, group(s.Burst), s.Ceil, group(s.CBurst), s.Prio, weight(s), strings.Join(remarks, "; ")})
		for _, c := range s.Children {
			walk(c, append(path[:len(path):len(path)], c.Name))
		}
	}
	walk(root, nil)
	right(t, header[:len(header)-1])
	fmt.Fprintf(w, "tree %s, costs in %s\n", tree, unit)
	t.Render()
	fmt.Fprintf(w, "%d classes, no mistakes\n", count)
}

func weight(s htb.Spec) string { return strconv.FormatFloat(s.Weight(), 'g', 6, 64) }

func newTable(w io.Writer, colour bool) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	if colour {
		style.Color.Header = text.Colors{text.Faint}
	}
	t.SetStyle(style)
	return t
}

// right aligns every column but the first to the right.
func right(t table.Writer, header table.Row) {
	var c []table.ColumnConfig
	for i := 1; i < len(header); i++ {
		c = append(c, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(c)
}

// maxPath is the widest that a path is written in a table.
const maxPath = 44

func indent(path string, depth int) string {
	if r := []rune(path); len(r) > maxPath {
		path = string(r[:maxPath/2]) + "…" + string(r[len(r)-maxPath/2+1:])
	}
	return strings.Repeat("  ", depth) + path
}

// amount writes a number of units with at most one digit after the point.
func amount(x float64) string {
	switch {
	case x == 0:
		return "0"
	case math.Abs(x) < 0.1:
		return strconv.FormatFloat(x, 'g', 2, 64)
	case x != math.Trunc(x) && math.Abs(x) < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return group(int64(math.Round(x)))
}

// group writes a number with its thousands apart.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func percent(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + "%"
}

func span(seconds float64) string {
	switch {
	case seconds >= 2*3600:
		return strconv.FormatFloat(seconds/3600, 'f', 1, 64) + " hours"
	case seconds >= 600:
		return strconv.FormatFloat(seconds/60, 'f', 1, 64) + " minutes"
	}
	return strconv.FormatFloat(seconds, 'f', -1, 64) + " s"
}
