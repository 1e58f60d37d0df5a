package fair

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Numbers published for, or worked out by hand from, other systems' setups: HTB's guide,
// MikroTik's manual, OMNeT++'s scenarios, the two-agency link and three max-min tables. Leaves
// stand in the rows in the order in which the tree holds them, `off` is a leaf that offers nothing.

const off = 0

var inf = math.Inf(1)

// yardstick is one published or derived division.
type yardstick struct {
	name string
	tree func() *Node
	want []float64 // offered, leaf by leaf
	gets []float64
}

// leaves returns the leaves below n from left to right.
func leaves(n *Node) []*Node {
	if n.leaf() {
		return []*Node{n}
	}
	var all []*Node
	for _, c := range n.Children {
		all = append(all, leaves(c)...)
	}
	return all
}

func gets(nodes []*Node) []float64 {
	var g []float64
	for _, n := range nodes {
		g = append(g, n.Gets)
	}
	return g
}

func measure(t *testing.T, table []yardstick, divide func(*Node)) {
	t.Helper()
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			root := row.tree()
			all := leaves(root)
			assert.Len(t, row.want, len(all))
			assert.Len(t, row.gets, len(all))
			for i, n := range all {
				n.Want = row.want[i]
			}
			divide(root)
			assert.InDeltaSlice(t, row.gets, gets(all), 0.01)
			lawConservation(t, root)
		})
	}
}

func strictly(n *Node) { Strict(n, Options{}) }

// reservedly divides with Reserve on. Nothing is saved up in the yardsticks (Burst 0), so it must change nothing.
func reservedly(n *Node) { Strict(n, Options{Reserve: true}) }

func node(rate, ceil float64, prio int, children ...*Node) *Node {
	return &Node{Rate: rate, Ceil: ceil, Prio: prio, Quantum: rate, Children: children}
}

// HTB's user guide (devik), link 100. Leaves: 10, 11, 12.

func e1() *Node {
	return node(100, 100, 0, node(30, 100, 0), node(10, 100, 0), node(60, 100, 0))
}

func e2() *Node {
	return node(100, 100, 0,
		node(40, 100, 0, node(30, 100, 0), node(10, 100, 0)),
		node(60, 100, 0))
}

func e3() *Node {
	return node(100, 100, 0,
		node(40, 60, 0, node(30, 100, 0), node(10, 20, 0)),
		node(60, 100, 0))
}

// In kernel the leaves' prios count, in strict those of siblings: A (0) before 12, 11 before 10.
func e5() *Node {
	return node(100, 100, 0,
		node(40, 100, 0, node(30, 100, 1), node(10, 100, 0)),
		node(60, 100, 1))
}

func guide() []yardstick {
	on := []float64{90, 90, 90}
	no10 := []float64{off, 90, 90}
	no11 := []float64{90, off, 90}
	no12 := []float64{90, 90, off}
	only10 := []float64{90, off, off}
	return []yardstick{
		// Reference 2, E1: a flat tree. The excess of 30, 10 and 60 goes 10:60, 30:60 and 30:10.
		{"E1 all on", e1, on, []float64{30, 10, 60}},
		{"E1 10 off", e1, no10, []float64{0, 10 + 30*10./70, 60 + 30*60./70}}, // 14.29, 85.71
		{"E1 11 off", e1, no11, []float64{30 + 10*30./90, 0, 60 + 10*60./90}}, // 33.33, 66.67
		{"E1 12 off", e1, no12, []float64{30 + 60*30./40, 10 + 60*10./40, 0}}, // 75, 25
		{"E1 only 10", e1, only10, []float64{90, 0, 0}},
		// Reference 2, E2: A keeps its 40 whichever of its leaves is off (published).
		{"E2 all on", e2, on, []float64{30, 10, 60}},
		{"E2 10 off", e2, no10, []float64{0, 40, 60}},
		{"E2 11 off", e2, no11, []float64{40, 0, 60}},
		{"E2 12 off", e2, no12, []float64{75, 25, 0}},
		{"E2 only 10", e2, only10, []float64{90, 0, 0}},
		// Reference 2, E3: 11's ceil of 20 binds with 10 off (published), A's of 60 with 12 off: 40 unused (published).
		{"E3 all on", e3, on, []float64{30, 10, 60}},
		{"E3 10 off", e3, no10, []float64{0, 20, 80}},
		{"E3 11 off", e3, no11, []float64{40, 0, 60}},
		{"E3 12 off", e3, no12, []float64{30 + 20*30./40, 10 + 20*10./40, 0}}, // 45, 15
		{"E3 only 10", e3, only10, []float64{60, 0, 0}},
		// Reference 2, E5: with 12 off all of the excess goes to 11 (published).
		{"E5 all on", e5, on, []float64{30, 10, 60}},
		{"E5 10 off", e5, no10, []float64{0, 40, 60}},
		{"E5 11 off", e5, no11, []float64{40, 0, 60}},
		{"E5 12 off", e5, no12, []float64{30, 70, 0}},
		{"E5 only 10", e5, only10, []float64{90, 0, 0}},
	}
}

// MikroTik's tree Q01{Q02{Q04,Q05},Q03}, link 10. Leaves: Q04, Q05, Q03. Prio 1 is the highest.
func mikrotik(q02rate float64, q02prio int, q03rate float64, q03prio, q04prio int) func() *Node {
	return func() *Node {
		return node(10, 10, 0,
			node(q02rate, 10, q02prio, node(2, 10, q04prio), node(2, 10, 5)),
			node(q03rate, 10, q03prio))
	}
}

var mikrotiks = []yardstick{
	// Reference 3, M1: the rates use up the link, so prio decides nothing.
	{"M1", mikrotik(4, 1, 6, 1, 3), []float64{10, 10, 10}, []float64{2, 2, 6}},
	// Reference 3, M2: rates 2, 2 and 2; the 4 left go to Q04, the most urgent leaf. In strict Q02, which stands for it, has prio 1.
	{"M2", mikrotik(4, 1, 2, 3, 1), []float64{10, 10, 10}, []float64{6, 2, 2}},
	// Reference 3, M3: Q03 is more urgent than Q04, but the 4 left are Q02's own and stay below it.
	{"M3", mikrotik(8, 2, 2, 1, 2), []float64{10, 10, 10}, []float64{6, 2, 2}},
}

// OMNeT++'s HTBQueue scenarios, link 50, every quantum equal. Kernel's.

func even(rate, ceil float64, prio int, children ...*Node) *Node {
	n := node(rate, ceil, prio, children...)
	n.Quantum = 1
	return n
}

func s1() *Node {
	return even(50, 50, 0, even(3, 20, 0), even(6, 25, 0), even(9, 30, 0), even(12, 35, 0), even(15, 40, 0))
}

func s2() *Node {
	return even(50, 50, 0,
		even(20, 40, 0, even(3, 20, 0), even(6, 25, 0), even(9, 30, 0)),
		even(30, 40, 0, even(12, 35, 0), even(15, 40, 0)))
}

func s3() *Node { return even(50, 50, 0, even(5, 30, 0), even(5, 30, 1)) }

var omnets = []yardstick{
	// Reference 4, S1: what the rates leave of 50 is shared evenly, until a ceil binds.
	{"S1 {0}", s1, []float64{inf, off, off, off, off}, []float64{20, 0, 0, 0, 0}},
	{"S1 {0,1}", s1, []float64{inf, inf, off, off, off}, []float64{20, 25, 0, 0, 0}},
	{"S1 {0-2}", s1, []float64{inf, inf, inf, off, off}, []float64{3 + 32./3, 6 + 32./3, 9 + 32./3, 0, 0}},
	{"S1 {0-3}", s1, []float64{inf, inf, inf, inf, off}, []float64{8, 11, 14, 17, 0}},
	{"S1 all", s1, []float64{inf, inf, inf, inf, inf}, []float64{4, 7, 10, 13, 16}},
	{"S1 {3,4}", s1, []float64{off, off, off, inf, inf}, []float64{0, 0, 0, 23.5, 26.5}},
	{"S1 {4}", s1, []float64{off, off, off, off, inf}, []float64{0, 0, 0, 0, 40}},
	// Reference 4, S2: C1 and C2 lend what is left of 20 and 30 first, then the root, up to their ceils of 40.
	{"S2 {0,1}", s2, []float64{inf, inf, off, off, off}, []float64{3 + 31./2, 6 + 31./2, 0, 0, 0}}, // 18.5, 21.5
	{"S2 {0-2}", s2, []float64{inf, inf, inf, off, off}, []float64{3 + 22./3, 6 + 22./3, 9 + 22./3, 0, 0}},
	{"S2 {0-3}", s2, []float64{inf, inf, inf, inf, off}, []float64{3 + 2./3, 6 + 2./3, 9 + 2./3, 30, 0}},
	{"S2 all", s2, []float64{inf, inf, inf, inf, inf}, []float64{3 + 2./3, 6 + 2./3, 9 + 2./3, 13.5, 16.5}},
	{"S2 {3,4}", s2, []float64{off, off, off, inf, inf}, []float64{0, 0, 0, 12 + 13./2, 15 + 13./2}}, // 18.5, 21.5
	{"S2 {4}", s2, []float64{off, off, off, off, inf}, []float64{0, 0, 0, 0, 40}},
	// Reference 4, S3: 40 to share; the first leaf takes 25 of it, to its ceil.
	{"S3", s3, []float64{inf, inf}, []float64{30, 20}},
}

// Two agencies on a link of 1.5. Leaves: A's vid and data, B's vid and data.
func agencies() *Node {
	return node(1.5, 1.5, 0,
		node(1.05, 1.5, 0, node(.45, 1.5, 1), node(.60, 1.5, 2)),
		node(.45, 1.5, 0, node(.15, 1.5, 1), node(.30, 1.5, 2)))
}

var twoAgencies = []yardstick{
	// Reference 5: what one leaf leaves, the other of its agency takes; the other agency never changes.
	{"agencies all on", agencies, []float64{1.52, 1.6, 2, 1.6}, []float64{.45, .60, .15, .30}},
	{"agencies vidB off", agencies, []float64{1.52, 1.6, off, 1.6}, []float64{.45, .60, 0, .45}},
	{"agencies vidA off", agencies, []float64{off, 1.6, 2, 1.6}, []float64{0, 1.05, .15, .30}},
	{"agencies dataA off", agencies, []float64{1.52, off, 2, 1.6}, []float64{1.05, 0, .15, .30}},
	{"agencies dataB off", agencies, []float64{1.52, 1.6, 2, off}, []float64{.45, .60, .45, 0}},
}

// flat is a capacity over leaves without guarantees, of the given weights.
func flat(capacity float64, weights ...float64) func() *Node {
	return func() *Node {
		root := node(capacity, capacity, 0)
		for _, w := range weights {
			root.Children = append(root.Children, &Node{Ceil: capacity, Quantum: w})
		}
		return root
	}
}

var maxMins = []yardstick{
	// Reference 6, Kubernetes fairAlloc: capacity to the small demands in full, the rest evenly.
	{"fairAlloc {47,0} of 42", flat(42, 1, 1), []float64{47, 0}, []float64{42, 0}},
	{"fairAlloc {1,47} of 42", flat(42, 1, 1), []float64{1, 47}, []float64{1, 41}},
	{"fairAlloc {3,7,9,1} of 14", flat(14, 1, 1, 1, 1), []float64{3, 7, 9, 1}, []float64{3, 5, 5, 1}},
	{"fairAlloc {1,9,7,3} of 21", flat(21, 1, 1, 1, 1), []float64{1, 9, 7, 3}, []float64{1, 9, 7, 3}},
	// Reference 6, doorman's fair share: 120 less 10 in halves; less 10 and 50; in the proportion 6:4:2.
	{"doorman 1000/60/10", flat(120, 1, 1, 1), []float64{1000, 60, 10}, []float64{55, 55, 10}},
	{"doorman 1000/50/10", flat(120, 1, 1, 1), []float64{1000, 50, 10}, []float64{60, 50, 10}},
	{"doorman weights 6/4/2", flat(120, 6, 4, 2), []float64{1000, 500, 200}, []float64{60, 40, 20}},
	{"doorman weights 10/10/30", flat(1000, 10, 10, 30), []float64{2000, 500, 700}, []float64{200, 200, 600}},
	// Reference 6, Kubernetes APF: of 24 seats 12 and 6 are guaranteed and used; the 6 left lift the first to its ceil of 16.
	{"APF", func() *Node { return node(24, 24, 0, node(12, 16, 0), node(12, 16, 0)) }, []float64{24, 6}, []float64{16, 6}},
}

func TestStrictYardsticks(t *testing.T) {
	for _, table := range [][]yardstick{guide(), mikrotiks, twoAgencies, maxMins} {
		measure(t, table, strictly)
	}
}

func TestKernelYardsticks(t *testing.T) {
	for _, table := range [][]yardstick{guide(), mikrotiks, omnets, twoAgencies, maxMins} {
		measure(t, table, Kernel)
	}
}

func TestReserveWithoutBurstsYardsticks(t *testing.T) {
	for _, table := range [][]yardstick{guide(), mikrotiks, twoAgencies, maxMins} {
		measure(t, table, reservedly)
	}
}
