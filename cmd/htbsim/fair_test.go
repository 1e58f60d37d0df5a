package main

import (
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/stretchr/testify/require"
)

// fairRun is a run beside its tree.
type fairRun struct {
	decoded
	inner map[string]float64 // the rates of the inner classes
}

// runFair runs a tree in steps of half a second.
func runFair(t *testing.T, tree, load string, args ...string) fairRun {
	t.Helper()
	run := []string{"run", "--mode", "police", "--tree", tree, "--load", load, "--step", "500ms", "--json", "-", "--quiet"}
	r := fairRun{decode(t, works(t, append(run, args...)...)), map[string]float64{}}
	file, err := config.ParseFile(tree)
	require.NoError(t, err)
	r.note(file.Root, "global")
	return r
}

func (r fairRun) note(s htb.Spec, name string) {
	if len(s.Children) == 0 {
		return
	}
	r.inner[name] = s.Rate.PerSecond()
	for _, c := range s.Children {
		r.note(c, strings.TrimPrefix(name+"/"+c.Name, "global/"))
	}
}

// share is what a class wanted, should have got and did get over some steps, and what
// its parent (of the root: itself) is guaranteed in that time.
type share struct {
	path                      string
	root, leaf                bool
	wants, fair, gets, parent float64
}

// off and far say how far from its share a class is: 1 is as far as 99 in 100 may be,
// and as far as any may be.
func (s share) off() float64 { return s.by(.03, .05) }
func (s share) far() float64 { return s.by(.10, .10) }

func (s share) by(ofParent, ofFair float64) float64 {
	return math.Abs(s.gets-s.fair) / max(ofParent*s.parent, ofFair*s.fair)
}

func (s share) String() string {
	return fmt.Sprintf("%s wants %.0f, fair %.1f, gets %.0f; parent's rate %.0f; off by %.2f of what 99 %% may be, %.2f of what all may be",
		s.path, s.wants, s.fair, s.gets, s.parent, s.off(), s.far())
}

// shares measures every class over the steps that begin at one of the seconds, in
// the order of paths.
func (r fairRun) shares(counts func(second float64) bool) []share {
	var all []share
	for path, c := range r.Classes {
		_, inner := r.inner[path]
		s := share{path: path, root: path == "global", leaf: !inner}
		rate := r.inner["global"]
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			rate = r.inner[path[:i]]
		}
		for k := range c.Series.Gets {
			if counts(float64(k) * r.Step) {
				s.wants += float64(c.Series.Wants[k])
				s.fair += c.Series.Fair[k]
				s.gets += float64(c.Series.Gets[k])
				s.parent += rate * r.Step
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b share) int { return strings.Compare(a.path, b.path) })
	return all
}

// A tolerance is worth no more than its own test.
func TestShareTolerance(t *testing.T) {
	for _, row := range []struct {
		fair, gets, parent float64
		near, notFar       bool
	}{
		{100, 100, 1000, true, true},
		{100, 129, 1000, true, true},   // 3 % of the parent
		{100, 71, 1000, true, true},    // either way
		{100, 131, 1000, false, true},  // but no more
		{100, 201, 1000, false, false}, // 10 % of the parent
		{900, 856, 1000, true, true},   // 5 % of its own
		{900, 854, 1000, false, true},
		{2000, 1801, 1000, false, true}, // 10 % of its own
		{2000, 1799, 1000, false, false},
		{0, 31, 1000, false, true},
	} {
		s := share{fair: row.fair, gets: row.gets, parent: row.parent}
		require.Equal(t, []bool{row.near, row.notFar}, []bool{s.off() <= 1, s.far() <= 1}, "%+v", row)
	}
}

// expectation bounds what classes get from one second to another.
type expectation struct {
	classes  string  // a pattern of path.Match
	from, to float64 // seconds; all but the first if zero
	least    float64 // units per second each, at least,
	most     float64 // and at most; no limit if zero
	of       float64 // this part at least of what they want together,
	each     float64 // and of what each of them wants
}

// fairScenarios are tree and load files of testdata/fair. From the first second on
// everybody is to be near its share, in every step that does not begin at an edge;
// and then what is expected besides.
var fairScenarios = []struct {
	tree, load string
	top        string
	noisy      bool // Poisson arrivals: near in all steps together, since fair knows what a step will bring
	edges      []float64
	expect     []expectation
}{
	// A lone borrower gets its full ceil, that of the root or one below it.
	{tree: "lone", load: "lone-backlogged", expect: []expectation{{classes: "lone", least: 995}}},
	{tree: "lone", load: "lone-constant", expect: []expectation{{classes: "lone", least: 995}}},
	{tree: "lone", load: "lone-capped-backlogged", expect: []expectation{{classes: "capped", least: .995 * 700, most: 1.005 * 700}}},
	{tree: "lone", load: "lone-capped-constant", expect: []expectation{{classes: "capped", least: .995 * 700, most: 1.005 * 700}}},

	// A guaranteed neighbour that wakes up is never refused within its rate.
	{tree: "wake", load: "wake", edges: []float64{5, 8}, expect: []expectation{
		{classes: "borrower", from: 1, to: 5, least: 995},
		{classes: "guaranteed", to: 12, each: 1},
		{classes: "third", from: 8.5, to: 12, least: 200 - 30, most: 200 + 30},
	}},
	{tree: "wake", load: "wake-constant", edges: []float64{5, 8}, expect: []expectation{
		{classes: "borrower", from: 1, to: 5, least: 995},
		{classes: "guaranteed", to: 12, each: 1},
		{classes: "third", from: 8.5, to: 12, least: 200 - 30, most: 200 + 30},
	}},

	// A client that offers 1000 times its share takes nothing from the modest ones.
	{tree: "loud", load: "loud", noisy: true, expect: []expectation{
		{classes: "modest-*", of: .99, each: .95}, {classes: "loud", least: 70, most: 130},
	}},
	{tree: "loud-template", load: "loud-template", noisy: true, top: "200", expect: []expectation{
		{classes: "client-*", of: .99, each: .95}, {classes: "loud", least: 70, most: 130},
	}},
	{tree: "loud10000", load: "loud10000", noisy: true, expect: []expectation{
		{classes: "[^l]*", of: .99}, {classes: "loud", least: 70, most: 130},
	}},
	{tree: "tenants", load: "tenants", noisy: true, expect: []expectation{
		{classes: "?", least: 500 - 15, most: 500 + 15},
		{classes: "?/modest-*", of: .99, each: .98},
	}},

	// Whether one comes back at the time it was told or hammers makes no difference.
	{tree: "retry", load: "retry", expect: []expectation{{classes: "*", least: 250 - 30, most: 250 + 30}}},
	{tree: "retry-template", load: "retry-template", top: "100", expect: []expectation{
		{classes: "hammer", least: 1000./21 - 30, most: 1000./21 + 30},
		{classes: "client-*", least: 1000. / 21 * .9, most: 1000. / 21 * 1.1},
	}},

	// Quanta, prios, and tenants whatever the number of their clients.
	{tree: "weights", load: "weights", expect: []expectation{
		{classes: "one", least: 10 + 970./7 - 30, most: 10 + 970./7 + 30},
		{classes: "two", least: 10 + 970*2./7 - 30, most: 10 + 970*2./7 + 30},
		{classes: "four", least: 10 + 970*4./7 - 30, most: 10 + 970*4./7 + 30},
	}},
	{tree: "prio", load: "prio", expect: []expectation{
		{classes: "first", of: .995},
		{classes: "then-*", least: 10 + .2*970 - 30, most: 10 + .2*970 + 30},
	}},
	{tree: "levels", load: "levels", expect: []expectation{
		{classes: "few/*", least: 500 - 15, most: 500 + 15},
		{classes: "many/*", least: 50 - 5, most: 50 + 5},
	}},
}

func TestFairScenarios(t *testing.T) {
	for _, s := range fairScenarios {
		t.Run(s.load, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(testdata, "fair")
			args := []string{}
			if s.top != "" {
				args = append(args, "--top", s.top)
			}
			r := runFair(t, filepath.Join(dir, s.tree+".tree.yaml"), filepath.Join(dir, s.load+".load.yaml"), args...)
			if s.noisy {
				r.near(t, nil, r.Seconds)
			} else {
				r.near(t, s.edges, r.Step)
			}
			for _, e := range s.expect {
				r.meets(t, e)
			}
		})
	}
}

// near reports the leaves that are not near their share in some window, with the worst
// window of each. The first window begins after a second, none at an edge.
func (r fairRun) near(t *testing.T, edges []float64, window float64) {
	worst := map[string]string{}
	most := map[string]float64{}
	var order []string
	for from := 1.0; from < r.Seconds; from += window {
		if slices.Contains(edges, from) {
			continue
		}
		for _, s := range r.shares(func(second float64) bool { return second >= from && second < from+window }) {
			if !s.leaf || s.off() <= max(1, most[s.path]) {
				continue
			}
			if most[s.path] == 0 {
				order = append(order, s.path)
			}
			worst[s.path], most[s.path] = fmt.Sprintf("from %.1f s on %v", from, s), s.off()
		}
	}
	var wrong []string
	for _, path := range order {
		wrong = append(wrong, worst[path])
	}
	complain(t, wrong)
}

// complain reports the first few of what is wrong.
func complain(t *testing.T, wrong []string) {
	for _, w := range wrong[:min(5, len(wrong))] {
		t.Error(w)
	}
	if len(wrong) > 5 {
		t.Errorf("and %d more", len(wrong)-5)
	}
}

func (r fairRun) meets(t *testing.T, e expectation) {
	if e.to == 0 {
		e.from, e.to = 1, r.Seconds
	}
	var together share
	var wrong []string
	for _, s := range r.shares(func(second float64) bool { return second >= e.from && second < e.to }) {
		if ok, err := path.Match(e.classes, s.path); err != nil || !ok || s.root {
			require.NoError(t, err)
			continue
		}
		together.wants += s.wants
		together.gets += s.gets
		together.fair += s.fair
		rate := s.gets / (e.to - e.from)
		if rate < e.least || e.most > 0 && rate > e.most {
			wrong = append(wrong, fmt.Sprintf("%v: %.1f/s is outside %.1f to %.1f", s, rate, e.least, e.most))
		}
		if s.gets < e.each*s.wants {
			wrong = append(wrong, fmt.Sprintf("%v: below %.3f of what it wants", s, e.each))
		}
	}
	complain(t, wrong)
	require.Positive(t, together.wants, "no class is %s, or they want nothing", e.classes)
	t.Logf("%s: want %.1f/s together, get %.1f/s, fair is %.1f/s", e.classes, together.wants/(e.to-e.from), together.gets/(e.to-e.from), together.fair/(e.to-e.from))
	if together.gets < e.of*together.wants {
		t.Errorf("%s: get %.4f of what they want, not %.3f", e.classes, together.gets/together.wants, e.of)
	}
}
