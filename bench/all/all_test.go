package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Targets name contenders and columns that there are, and no name stands for two.
func TestGroups(t *testing.T) {
	var names []string
	for _, g := range groups() {
		var contenders []string
		for _, c := range g.contenders {
			contenders = append(contenders, c.name)
		}
		has := func(name string) bool { return slices.Contains(contenders, name) }
		for _, x := range g.targets {
			if !has(x.of) || !slices.Contains(g.columns, x.column) {
				t.Errorf("%s: a target of %q in %q", g.name, x.of, x.column)
			}
			for _, other := range x.than {
				if !has(other) {
					t.Errorf("%s: a target beside %q", g.name, other)
				}
			}
		}
		if g.ours != "" && !has(g.ours) || !slices.Contains(g.columns, g.first) {
			t.Errorf("%s: ratios of %q in %q", g.name, g.ours, g.first)
		}
		names = append(names, g.name)
		slices.Sort(contenders)
		if len(slices.Compact(contenders)) != len(g.contenders) {
			t.Errorf("%s: two contenders have the same name", g.name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("two tables have the same name: %q", names)
	}
}

// What is to be allowed, borrowed and refused is; a setting that is not what it says fails.
func TestSettings(t *testing.T) {
	for _, path := range []string{
		"allowed/sluice", "allowed/sluice, borrowed", "allowed/sluice, leased", "two/sluice, one leaf leased", "refused/sluice, by its ceil", "refused/sluice, by the root",
		"refused/x/time, 3 with reserve and cancel", "refused/x/time, allowed", "two/sluice",
	} {
		if err := serve(path, options{short: true}, strings.NewReader("\n"), new(bytes.Buffer)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	run := counted(true, allow(false))
	if _, err := run(10); err == nil {
		t.Error("refusals were measured as admissions")
	}
}
