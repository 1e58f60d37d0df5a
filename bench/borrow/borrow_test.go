package main

import (
	"slices"
	"strings"
	"testing"
)

// sluice shares nearly as is ideal where the first come, first served bucket is far off.
func TestSluiceIsNearIdeal(t *testing.T) {
	offOwn := func(name string, trials []trial, group string) float64 {
		s := schemes[slices.IndexFunc(schemes, func(s scheme) bool { return s.name == name })]
		var f figures
		for i, tr := range trials {
			f.trials = append(f.trials, tr.run(s, uint64(i)))
		}
		return f.worst(trials, group).offOwn
	}
	fair := slices.DeleteFunc(fairTrials(), func(t trial) bool { return len(t.pool.quanta) > 1000 })
	for group, near := range map[string]float64{"b loud": 10, "c any": 3, "h2 large": 3} {
		trials := slices.DeleteFunc(slices.Clone(fair), func(t trial) bool { return t.group != group })
		if got := offOwn("sluice", trials, group); got > near {
			t.Errorf("%s: a child is %.0f %% off its share, want %.0f at most", group, got, near)
		}
		if got := offOwn("fcfs", trials, group); got < 50 {
			t.Errorf("%s: with fcfs a child is %.0f %% off its share, not far: this tests nothing", group, got)
		}
	}
}

// Every trial is in a column of the report.
func TestGroups(t *testing.T) {
	for _, tr := range fairTrials() {
		if !slices.ContainsFunc(groups, func(g [2]string) bool { return g[0] == tr.group }) {
			t.Errorf("%s: %s is in none", tr.group, tr.name)
		}
	}
}

// Who comes back when told gets as much as who hammers.
func TestComingBackIsEnough(t *testing.T) {
	for _, s := range schemes {
		got := retriers(s, 10)
		if strings.HasPrefix(s.name, "sluice") && (got < 0.95 || got > 1.05) || s.name == "fcfs" && got > 0.5 && got < 2 {
			t.Errorf("%s: hammerers get %.2f for 1", s.name, got)
		}
	}
}
