package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

type report struct {
	io.Writer
	chosen []scheme
	trials []trial
	found  []figures
}

// groups are the columns of the first table.
var groups = [][2]string{
	{"a all", "2 to 10 000 children all ask for 5 shares, with equal or unequal weights"},
	{"b loud", "one asks for 1000 shares, 2 to 10 000 others for 0.9"},
	{"c any", "3 or 10 ask for 0.1 to 10 shares, cost 1 of H 500"},
	{"c1 costs", "the same, cost 1 to 20 of H 5000"},
	{"c2 coarse", "the same, cost 1 to 20 of H 100"},
	{"g lone", "one asks, 1 to 99 are silent"},
	{"h large", "one with cost 30, 60 or 100 of H 100, which does not come back, beside nine of 5 shares, cost 1"},
	{"h2 large", "the same, but it comes back when it is told to"},
	{"h3 large", "1 or 5 of 10 with cost 60 of H 100 come back when told, the others ask for 5 shares, cost 1 to 3"},
	{"i light", "1 or 10 of 10 ask for 0.7 or 0.9 of capacity, cost 1 to 20 of H 100"},
	{"j on-off", "ten ask for 5 shares, but five of them fall silent in turn, for 20 to 500 ms"},
}

// moments are the column groups of the second table.
var moments = [][2]string{
	{"d join", "ms until everybody has what is fair, within a tenth, after 1, 9, 99 join a lone borrower"},
	{"d leave", "ms until that has 99 % again, after they left"},
	{"e", "what hammerers get for 1 of those that come back when told, of 2, 10, 100 children"},
	{"f gap", "longest wait of an incumbent when 1000 wake up, in fair gaps"},
	{"k rare", "% of rare units that pass at once beside a hammerer, in requests of 1, 1-20, 40 of H 100"},
	{"ns", "per decision, among 10, 1000, 100 000 children"},
	{"max µs", "of a decision among 100 000"},
	{"bytes", "for each child"},
}

func (r report) table() *tabwriter.Writer {
	return tabwriter.NewWriter(r, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func (r report) legend(lines [][2]string) {
	tab := tabwriter.NewWriter(r, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintf(tab, "%s\t%s\n", l[0], l[1])
	}
	tab.Flush()
	fmt.Fprintln(r)
}

func (r report) fairness() {
	fmt.Fprint(r, "Worst of each scenario: the distance of a child from its ideal in % of capacity / the same in %\n"+
		"of its own share, if that is 1 % of capacity or more / what was used in % of what could be.\n"+
		"H is what the bucket holds. Cost is 1 where none is told.\n\n")
	r.legend(groups)
	tab := r.table()
	for _, g := range groups {
		fmt.Fprintf(tab, "\t%s", g[0])
	}
	fmt.Fprintln(tab, "\t")
	for i, s := range r.chosen {
		fmt.Fprintf(tab, "%s\t", s.name)
		for _, g := range groups {
			fmt.Fprintf(tab, "%s\t", r.found[i].worst(r.trials, g[0]))
		}
		fmt.Fprintln(tab)
	}
	tab.Flush()
}

func (f figures) worst(trials []trial, group string) outcome {
	w := outcome{used: 100}
	for k, t := range trials {
		if t.group == group {
			w = w.worse(f.trials[k])
		}
	}
	return w
}

func (r report) moments() {
	fmt.Fprintln(r)
	r.legend(moments)
	tab := r.table()
	fmt.Fprintln(tab, "\td join 1\t9\t99\td leave 1\t9\t99\te 2\t10\t100\tf gap\tk rare 1\t1-20\t40\tns 10\t1000\t100 000\tmax µs\tbytes\t")
	for i, s := range r.chosen {
		f := r.found[i]
		fmt.Fprintf(tab, "%s\t", s.name)
		for side := range 2 {
			for _, w := range f.wake {
				if math.IsInf(w[side], 1) {
					fmt.Fprint(tab, "never\t")
				} else {
					fmt.Fprintf(tab, "%.0f\t", w[side])
				}
			}
		}
		for _, x := range f.ratios {
			fmt.Fprintf(tab, "%.2f\t", x)
		}
		fmt.Fprintf(tab, "%.1f\t", f.gap)
		for _, x := range f.rare {
			fmt.Fprintf(tab, "%.0f\t", x)
		}
		if len(f.perCall) == 0 {
			fmt.Fprint(tab, "\t\t\t\t")
		} else {
			fmt.Fprintf(tab, "%.0f\t%.0f\t%.0f\t%.0f\t", f.perCall[0], f.perCall[1], f.perCall[2], f.longest/1000)
		}
		fmt.Fprintf(tab, "%d\t\n", s.state)
	}
	tab.Flush()
}

func (r report) eachTrial() {
	tab := r.table()
	for k, t := range r.trials {
		fmt.Fprintf(r, "\n%s: %s\n", t.group, t.name)
		for i, s := range r.chosen {
			fmt.Fprintf(tab, "%s\t%s\t\n", s.name, r.found[i].trials[k])
		}
		tab.Flush()
	}
}

func (o outcome) String() string { return fmt.Sprintf("%.1f / %.0f / %.1f", o.offC, o.offOwn, o.used) }
