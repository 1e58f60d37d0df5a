package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report is all that was measured.
type report struct {
	Machine string
	Modules []string
	Rounds  int
	Short   bool
	Tables  []table
}

func (r *report) header(w io.Writer) {
	fmt.Fprintln(w, r.Machine)
	fmt.Fprintln(w, "sluice of this tree; "+strings.Join(r.Modules, "; "))
	fmt.Fprintf(w, "Medians of %d rounds, in turn. One core: ns of processor time; two cores: ns that passed, over all decisions.\n", r.Rounds)
	fmt.Fprintln(w, "In the last column what Sluice takes, of what the row takes: the median of the rounds' ratios.")
	if r.Short {
		fmt.Fprintln(w, "-short: sizes are a tenth, and targets mean little.")
	}
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s/%s. %s.\n", t.Figure, t.Name, t.Title)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	shown := t.shown()
	fmt.Fprint(tab, "\t", strings.Join(shown, "\t"), "\t")
	if t.ours != "" {
		fmt.Fprintf(tab, "%s / this\t", t.ours)
	}
	fmt.Fprintln(tab)
	for _, c := range t.contenders {
		fmt.Fprintf(tab, "%s\t", c.name)
		for _, column := range shown {
			v, ok := t.median(c.name, column)
			if !ok {
				fmt.Fprint(tab, "-\t")
				continue
			}
			fmt.Fprintf(tab, "%s\t", number(v))
		}
		switch {
		case t.ours == "":
		case c.name == t.ours:
			fmt.Fprint(tab, "1\t")
		default:
			fmt.Fprintf(tab, "%.2f\t", t.ratio(t.ours, t.first, c.name))
		}
		fmt.Fprintln(tab)
	}
	tab.Flush()
}

// shown leaves out what has passed where that says nothing that ns does not.
func (t *table) shown() (columns []string) {
	for _, c := range t.columns {
		if t.cores > 1 && c == "wall ns" && t.first == "ns" {
			continue
		}
		columns = append(columns, c)
	}
	return columns
}

// number writes v with three digits, and whole numbers in full.
func number(v float64) string {
	switch {
	case v == 0 || v >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func (r *report) verdicts(w io.Writer) {
	fmt.Fprint(w, "\nTargets.\n")
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "figure\t\tat most\taim\tmeasured\t")
	for _, t := range r.Tables {
		for _, v := range t.Verdicts {
			aim := ""
			if v.Aim > 0 {
				aim = number(v.Aim)
			}
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Figure, v.What, number(v.AtMost), aim, number(v.Measured), v)
		}
	}
	tab.Flush()
}
