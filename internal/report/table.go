package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
)

// Look is how a table is to be shown.
type Look struct {
	Colour bool
	Width  int // of the terminal, in columns; 0 for no bound
}

// column is one of the run's table.
type column struct {
	name string
	cell func(r *result.Row, seconds float64) string
	// spare says when the column is left out of a table too wide for the terminal:
	// the highest first, those of 0 never. What can be worked out from others goes
	// before what cannot.
	spare int
}

// columnsOf returns the columns for a mode: one that polices rejects, one that shapes
// drops, expires and delays.
func columnsOf(mode string) (out []column) {
	for _, c := range columns {
		switch {
		case c.name != "rejected":
			out = append(out, c)
		case mode == "shape":
			out = append(out, shaped...)
		default:
			out = append(out, c)
		}
	}
	return out
}

var shaped = []column{
	{"dropped", func(r *result.Row, _ float64) string { return group(r.Dropped) }, 5},
	{"expired", func(r *result.Row, _ float64) string { return group(r.Expired) }, 5},
	{"queued", func(r *result.Row, _ float64) string { return group(r.Queued) }, 5},
	{"p50 ms", func(r *result.Row, _ float64) string { return amount(r.Delay.P50) }, 0},
	{"p99 ms", func(r *result.Row, _ float64) string { return amount(r.Delay.P99) }, 0},
}

var columns = []column{
	{"class", func(r *result.Row, _ float64) string { return indent(r.Path, r.Depth) }, 0},
	{"rate/s", func(r *result.Row, _ float64) string { return amount(r.Rate) }, 4},
	{"ceil/s", func(r *result.Row, _ float64) string { return amount(r.Ceil) }, 3},
	{"wants", func(r *result.Row, _ float64) string { return group(r.Wants) }, 0},
	{"gets", func(r *result.Row, _ float64) string { return group(r.Gets) }, 0},
	{"gets/s", func(r *result.Row, s float64) string { return perSecond(r.Gets, s) }, 7},
	{"rejected", func(r *result.Row, _ float64) string { return group(r.Rejected) }, 5},
	{"own", func(r *result.Row, _ float64) string { return group(r.Own) }, 8},
	{"borrows", func(r *result.Row, _ float64) string { return group(r.Borrows) }, 0},
	{"lends", func(r *result.Row, _ float64) string { return group(r.Lends) }, 1},
	{"fair", func(r *result.Row, _ float64) string { return group(int64(math.Round(r.Fair))) }, 2},
	{"gets/fair", func(r *result.Row, _ float64) string { return percent(float64(r.Gets), r.Fair) }, 6},
}

// Table writes the run for a reader: a line per class, children indented below
// their parent, then totals and notes.
func Table(w io.Writer, run *result.Run, look Look) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s, mode %s, %s of traffic, costs in %s\n", run.Tree, run.Mode, span(run.Seconds), run.Unit)
	shown, left := fitting(run, look.Width)
	t := newTable(&b, look.Colour)
	header := make(table.Row, len(shown))
	for i, c := range shown {
		header[i] = c.name
	}
	t.AppendHeader(header)
	for i := range run.Rows {
		line := make(table.Row, len(shown))
		for j, c := range shown {
			line[j] = c.cell(&run.Rows[i], run.Seconds)
		}
		t.AppendRow(line)
	}
	right(t, header)
	if look.Colour {
		t.SetRowPainter(func(_ table.Row, at table.RowAttributes) text.Colors {
			if at.Number-1 < len(run.Rows) {
				switch r := run.Rows[at.Number-1]; {
				case r.Depth == 0:
					return text.Colors{text.Bold}
				case r.Rejected+r.Dropped+r.Expired > 0:
					return text.Colors{text.FgYellow}
				}
			}
			return nil
		})
	}
	t.Render()
	if len(left) > 0 {
		fmt.Fprintf(&b, "(too wide for this terminal, so without: %s)\n", strings.Join(left, ", "))
	}
	if len(run.Rows) > 0 {
		root := run.Rows[0]
		rest := group(root.Rejected) + " rejected"
		if run.Mode == "shape" {
			rest = fmt.Sprintf("%s dropped, %s expired, %s still queued", group(root.Dropped), group(root.Expired), group(root.Queued))
		}
		fmt.Fprintf(&b, "total: %s of %s %s wanted were let through (%s), %s; the ideal allocation gives %s\n",
			group(root.Gets), group(root.Wants), run.Unit, percent(float64(root.Gets), float64(root.Wants)), rest, group(int64(math.Round(root.Fair))))
	}
	if run.Gateways != nil {
		gateways(&b, run)
	}
	Notes(&b, run)
	_, err := w.Write(b.Bytes())
	return err
}

// Notes writes what is to be said of a run beside its numbers.
func Notes(w io.Writer, run *result.Run) {
	for _, n := range run.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// fitting returns the columns that have room, and the names of those left out.
func fitting(run *result.Run, width int) (shown []column, left []string) {
	columns := columnsOf(run.Mode)
	if run.Gateways != nil {
		columns = append(columns, windows...)
	}
	total, widths := 0, make([]int, len(columns))
	for i, c := range columns {
		widths[i] = text.StringWidth(c.name)
		for j := range run.Rows {
			widths[i] = max(widths[i], text.StringWidth(c.cell(&run.Rows[j], run.Seconds)))
		}
		total += widths[i] + 1 // a space after each
	}
	out := make([]bool, len(columns))
	for width > 0 && total > width {
		most := -1
		for i, c := range columns {
			if !out[i] && c.spare > 0 && (most < 0 || c.spare > columns[most].spare) {
				most = i
			}
		}
		if most < 0 {
			break
		}
		out[most] = true
		total -= widths[most] + 1
	}
	for i, c := range columns {
		if out[i] {
			left = append(left, c.name)
		} else {
			shown = append(shown, c)
		}
	}
	return shown, left
}

// Classes writes a tree with every default filled in, as `htbsim check` shows it.
func Classes(w io.Writer, tree, unit string, root htb.Spec, look Look) error {
	var b bytes.Buffer
	t := newTable(&b, look.Colour)
	header := table.Row{"class", "rate", "burst", "ceil", "cburst", "prio", "quantum", "remarks"}
	t.AppendHeader(header)
	count, over := 0, false
	var walk func(s htb.Spec, path []string)
	walk = func(s htb.Spec, path []string) {
		count++
		var remarks []string
		for _, l := range s.Also {
			remarks = append(remarks, fmt.Sprintf("also %v burst %s", l.Rate, group(l.Burst)))
		}
		if s.Name == htb.Template && len(path) > 0 {
			remarks = append(remarks, fmt.Sprintf("template, max %s", group(int64(s.Max))))
		}
		if s.Oversubscribed {
			over = true
			remarks = append(remarks, "oversubscribed")
		}
		if s.Remote {
			remarks = append(remarks, "in Redis")
		}
		if s.Sync > 0 {
			remarks = append(remarks, fmt.Sprintf("sync %v", s.Sync))
		}
		t.AppendRow(table.Row{indent(htb.Mistake{Path: path}.Where(), len(path)), s.Rate, group(s.Burst), s.Ceil, group(s.CBurst), s.Prio, weight(s), strings.Join(remarks, "; ")})
		for _, c := range s.Children {
			walk(c, append(path[:len(path):len(path)], c.Name))
		}
	}
	walk(root, nil)
	right(t, header[:len(header)-1])
	fmt.Fprintf(&b, "tree %s, costs in %s\n", tree, unit)
	t.Render()
	if over {
		fmt.Fprintln(&b, "oversubscribed: more is promised below than there is, so guarantees there are best effort")
	}
	classes := "classes"
	if count == 1 {
		classes = "class"
	}
	fmt.Fprintf(&b, "%d %s, no mistakes\n", count, classes)
	_, err := w.Write(b.Bytes())
	return err
}

func weight(s htb.Spec) string { return strconv.FormatFloat(s.Weight(), 'g', 6, 64) }

// Widths must not follow the locale: the same run is the same bytes everywhere.
func init() { text.OverrideRuneWidthEastAsianWidth(false) }

func newTable(w io.Writer, colour bool) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SuppressTrailingSpaces()
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

// maxPath is the widest that a path is written in a table, in columns.
const maxPath = 44

func indent(path string, depth int) string {
	return strings.Repeat("  ", depth) + shorten(printable(path), maxPath)
}

// printable percent-encodes what would not show, or would show elsewhere: names
// come from outside, and a terminal obeys some of them.
func printable(path string) string {
	if strings.IndexFunc(path, hidden) < 0 {
		return path
	}
	var b strings.Builder
	for _, r := range path {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// shorten takes out the middle of s where it is wider than most columns.
func shorten(s string, most int) string {
	if text.StringWidth(s) <= most {
		return s
	}
	r := []rune(s)
	head := string(r[:take(r, most/2)])
	slices.Reverse(r)
	tail := r[:take(r, most-most/2-1)]
	slices.Reverse(tail)
	return head + "…" + string(tail)
}

// take returns how many of the runes fit into so many columns.
func take(r []rune, columns int) int {
	for i := range r {
		if columns -= text.RuneWidth(r[i]); columns < 0 {
			return i
		}
	}
	return len(r)
}

// amount writes a number of units with at most one digit after the point.
func amount(x float64) string {
	switch {
	case x == 0:
		return "0"
	case math.Abs(x) < 0.1:
		return strconv.FormatFloat(x, 'g', 2, 64)
	case x != math.Trunc(x) && math.Abs(x) < 100:
		return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
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

// perSecond is "-" for a trace that takes no time, all of it being of one instant.
func perSecond(units int64, seconds float64) string {
	if seconds <= 0 {
		return "-"
	}
	return amount(float64(units) / seconds)
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
