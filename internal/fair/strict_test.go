package fair

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// police is a root of rate 1000, burst 1350 (900 for its children and 450 headroom), ceil the same, over
// A and B of rate 450, burst 450: everything full, in a step of one second.
func police(a, b float64) *Node {
	leaf := func(want float64) *Node {
		return &Node{Rate: 450 + 450, Burst: 450, Ceil: inf, Quantum: 450, Want: want}
	}
	return &Node{Rate: 1000 + 1350, Burst: 1350, Ceil: 1000 + 1350, Children: []*Node{leaf(a), leaf(b)}}
}

func TestReserve(t *testing.T) {
	for _, row := range []struct {
		name string
		root *Node
		gets []float64
		all  float64
	}{
		// Nothing is held: 2350 in halves.
		{"both hammer", police(inf, inf), []float64{1175, 1175}, 2350},
		// A holds min(450, 900), and the root passes on what lies above that.
		{"A idle", police(0, inf), []float64{0, 1900}, 1900},
		// A has 200 of its 900 left and will keep them: 2350 - 200, of which A has 700.
		{"A nearly used up", police(700, inf), []float64{700, 1450}, 2150},
		// A wants more than its 900: nothing held, and A is content with 1000.
		{"A borrows", police(1000, inf), []float64{1000, 1350}, 2350},
		{"both idle", police(0, 0), []float64{0, 0}, 0},
		// No lack, so what is held makes no difference.
		{"B within its rate", police(0, 900), []float64{0, 900}, 900},
	} {
		t.Run(row.name, func(t *testing.T) {
			Strict(row.root, Options{Reserve: true})
			assert.InDeltaSlice(t, row.gets, gets(leaves(row.root)), 1e-9)
			assert.InDelta(t, row.all, row.root.Gets, 1e-9)
		})
	}

	t.Run("off by default", func(t *testing.T) {
		root := police(0, inf)
		Strict(root, Options{})
		assert.InDelta(t, 2350, root.Gets, 1e-9)
	})

	// X (100) has lent nothing out of the 50 that its idle child may still claim, so the other child's 80
	// are 50 of its own and 30 from the root, although X's rate is 100.
	t.Run("an inner class borrows around its reserve", func(t *testing.T) {
		idle := &Node{Rate: 50, Burst: 50, Ceil: 200}
		busy := &Node{Rate: 50, Burst: 50, Ceil: 200, Want: 80}
		x := &Node{Rate: 100, Burst: 100, Ceil: 200, Children: []*Node{idle, busy}}
		root := &Node{Rate: 300, Burst: 300, Ceil: 300, Children: []*Node{x}}
		Strict(root, Options{Reserve: true})
		assert.Equal(t, []float64{0, 80}, gets(leaves(root)))
		assert.Equal(t, 30., x.Borrowed)
		assert.Equal(t, 30., busy.Borrowed)
		assert.Zero(t, root.Borrowed)
	})

	// The ceil is reduced like the rate: 200 less the 50 of the idle child.
	t.Run("ceil", func(t *testing.T) {
		idle := &Node{Rate: 50, Burst: 50, Ceil: 200}
		busy := &Node{Rate: 50, Burst: 50, Ceil: 200, Want: inf}
		x := &Node{Rate: 100, Burst: 100, Ceil: 200, Children: []*Node{idle, busy}}
		root := &Node{Rate: 300, Burst: 300, Ceil: 300, Children: []*Node{x}}
		Strict(root, Options{Reserve: true})
		assert.Equal(t, []float64{0, 150}, gets(leaves(root)))
	})

	// An oversubscribed class keeps back its Hold, however much its children could claim.
	t.Run("oversubscribed", func(t *testing.T) {
		var children []*Node
		for range 10 {
			children = append(children, &Node{Rate: 50, Burst: 50, Ceil: 300})
		}
		children[0].Want = inf
		x := &Node{Rate: 100, Hold: 40, Oversubscribed: true, Ceil: 300, Children: children}
		root := &Node{Rate: 400, Ceil: 400, Children: []*Node{x}}
		Strict(root, Options{Reserve: true})
		assert.Equal(t, 260., x.Gets)
		x.Hold = 1000 // more than there is: what is within the child's own rate passes all the same
		Strict(root, Options{Reserve: true})
		assert.Equal(t, 50., x.Gets)
	})
}

// Guarantees of 60, 30 and 30 below an oversubscribed class that has 60 and cannot borrow.
func TestStrictRations(t *testing.T) {
	tree := func(a, b, c float64) *Node {
		return node(100, 100, 0,
			&Node{Rate: 60, Ceil: 60, Oversubscribed: true, Children: []*Node{
				{Rate: 60, Ceil: 60, Want: a}, {Rate: 30, Ceil: 60, Want: b}, {Rate: 30, Ceil: 60, Want: c},
			}},
			&Node{Rate: 40, Ceil: 100, Want: inf})
	}
	for _, row := range []struct {
		name string
		root *Node
		gets []float64
	}{
		{"by rate", tree(inf, inf, inf), []float64{30, 15, 15, 40}},
		{"what one leaves", tree(inf, 6, inf), []float64{36, 6, 18, 40}}, // 54 in 60:30
		{"prio and quantum are for excess", tree(inf, inf, off), []float64{40, 20, 0, 40}},
		{"no lack", tree(30, inf, off), []float64{30, 30, 0, 40}},
	} {
		t.Run(row.name, func(t *testing.T) {
			Strict(row.root, Options{})
			assert.InDeltaSlice(t, row.gets, gets(leaves(row.root)), 1e-9)
		})
	}
}

// Each side of these has one number that stands at the end of its range.
func TestStrictExtremes(t *testing.T) {
	for _, row := range []struct {
		name string
		root *Node
		gets []float64
	}{
		{"a lone leaf borrows from nobody", &Node{Rate: 5, Ceil: 9, Want: inf}, []float64{5}},
		{"zero value", &Node{}, []float64{0}},
		{"no rate at the root", node(0, 9, 0, &Node{Rate: 5, Ceil: 9, Want: 9}), []float64{0}},
		{"no ceil", node(10, inf, 0, &Node{Ceil: inf, Want: inf}, &Node{Ceil: inf, Want: 2}), []float64{8, 2}},
		{"debt is no guarantee", node(10, 10, 0, &Node{Rate: -5, Ceil: 10, Want: inf}, &Node{Rate: 4, Ceil: 10, Want: 4}), []float64{6, 4}},
		{"a ceil in debt", node(10, 10, 0, &Node{Rate: 5, Ceil: -1, Want: inf}), []float64{0}},
		{"quantum 0 counts as 1", node(9, 9, 0, &Node{Ceil: 9, Want: inf}, &Node{Ceil: 9, Quantum: 2, Want: inf}), []float64{3, 6}},
		{"quantum below 0 too", node(9, 9, 0, &Node{Ceil: 9, Quantum: -7, Want: inf}, &Node{Ceil: 9, Quantum: 2, Want: inf}), []float64{3, 6}},
		{"prio", node(9, 9, 0, &Node{Ceil: 9, Prio: 7, Want: inf}, &Node{Ceil: 4, Prio: -1, Want: inf}), []float64{5, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			Strict(row.root, Options{})
			assert.InDeltaSlice(t, row.gets, gets(leaves(row.root)), 1e-9)
		})
	}
}

// What is left over when a prio has taken all is rounding error, and none of the next prio's.
func TestNoDustForLaterPrios(t *testing.T) {
	for _, divide := range []func(*Node){strictly, Kernel} {
		for n := range 200 {
			late := &Node{Ceil: inf, Prio: 1, Want: inf}
			root := node(.7, .7, 0, late)
			for i := range n + 1 {
				root.Children = append(root.Children, &Node{Ceil: inf, Quantum: 1 + .1*float64(i), Want: inf})
			}
			divide(root)
			assert.Zero(t, late.Gets)
		}
	}
}

func TestResultsAreOverwritten(t *testing.T) {
	for _, divide := range []func(*Node){strictly, reservedly, Kernel} {
		root := police(inf, inf)
		divide(root)
		for _, leaf := range leaves(root) {
			leaf.Want = 10
		}
		divide(root)
		assert.InDelta(t, 20, root.Gets, 1e-9)
		assert.Zero(t, root.Borrowed)
		assert.Zero(t, root.Children[0].Borrowed)
	}
}

func TestNotAnAmountPanics(t *testing.T) {
	nan := math.NaN()
	for _, bad := range []Node{
		{Rate: nan}, {Rate: inf}, {Ceil: nan}, {Burst: nan}, {Hold: nan}, {Hold: inf},
		{Quantum: nan}, {Quantum: inf}, {Want: nan},
	} {
		root := node(1, 1, 0, &bad)
		assert.Panics(t, func() { Strict(root, Options{}) })
		assert.Panics(t, func() { Kernel(root) })
	}
}
