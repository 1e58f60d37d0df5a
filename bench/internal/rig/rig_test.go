package rig

import "testing"

func TestNames(t *testing.T) {
	if got := Name(1234567); len(got) != NameLength || got != "client-001234567" {
		t.Errorf("Name is %q", got)
	}
	seen := map[string]int{}
	for _, name := range Zipf(1000, 100_000) {
		seen[name]++
	}
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	if len(seen) < 900 || most < 10_000 { // 1/k^1.1 of a thousand: a sixth is the first's
		t.Errorf("%d names were drawn, one of them %d times", len(seen), most)
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]int{5, 1, 9, 3}); got != 5 {
		t.Errorf("the median is %d", got)
	}
}
