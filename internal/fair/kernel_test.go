package fair

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKernel(t *testing.T) {
	leaf := func(rate, ceil, want float64) *Node { return &Node{Rate: rate, Ceil: ceil, Want: want} }
	for _, row := range []struct {
		name string
		root *Node
		gets []float64
	}{
		{"in rate, whatever the root has", node(5, 5, 0, leaf(10, 20, 20), leaf(10, 20, 8)), []float64{10, 8}},
		{"a lone leaf", leaf(5, 9, inf), []float64{5}},
		{"the leaf's own ceil caps its rate", node(9, 9, 0, leaf(5, 3, inf)), []float64{3}},
		{"a leaf in debt borrows", node(9, 9, 0, leaf(-5, 9, inf)), []float64{9}},
		{"no ceil", node(9, inf, 0, node(1, inf, 0, leaf(0, inf, inf))), []float64{9}},
		// A class over its ceil by sends within rates has no room to borrow; the rest is for the others.
		{"a ceil in debt", node(20, 20, 0, node(2, 3, 0, leaf(5, 9, inf)), leaf(0, 20, inf)), []float64{5, 15}},
		// The middle class has 6 left and lends them, though the root is 1 in debt.
		{"an ancestor in debt does not stop a lender",
			node(9, 9, 0, node(10, 10, 0, leaf(4, 10, inf)), leaf(6, 6, inf)), []float64{10, 6}},
		// The lender's own ceil is below its rate: sch_htb lends nothing from a class at its ceil.
		{"a lender at its ceil", node(9, 5, 0, leaf(2, 9, inf)), []float64{5}},
		// 12 to share below three limits: {0,1} stop at 2 together, then 2 stops at 3, and 3 takes the rest.
		{"nested limits", node(12, 12, 0,
			node(0, 5, 0, node(0, 2, 0, leaf(0, 9, inf), leaf(0, 9, inf)), leaf(0, 9, inf)), leaf(0, 9, inf)),
			[]float64{1, 1, 3, 7}},
		// Prio compares leaves: the urgent one on the far side comes before its neighbour.
		{"prio across the tree", node(10, 10, 0,
			node(0, 10, 0, &Node{Ceil: 10, Prio: 1, Want: inf}), node(0, 4, 5, leaf(0, 9, inf), &Node{Ceil: 9, Prio: 1, Want: inf})),
			[]float64{6, 4, 0}},
		// One leaf against two: the kernel's turns go round the leaves, not the tenants.
		{"quantum across the tree", node(9, 9, 0,
			node(0, 9, 0, leaf(0, 9, inf)), node(0, 9, 0, leaf(0, 9, inf), leaf(0, 9, inf))), []float64{3, 3, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			Kernel(row.root)
			assert.InDeltaSlice(t, row.gets, gets(leaves(row.root)), 1e-9)
		})
	}
}

// A leaf directly below the root borrows only when the root lends, a deeper one first from its
// parent: that is what makes 12 wait in E3.
func TestKernelBorrowed(t *testing.T) {
	root := e3()
	for i, want := range []float64{off, 90, 90} {
		leaves(root)[i].Want = want
	}
	Kernel(root)
	a, l11, l12 := root.Children[0], root.Children[0].Children[1], root.Children[1]
	assert.Equal(t, 10., l11.Borrowed)
	assert.Equal(t, 0., a.Borrowed)
	assert.Equal(t, 20., l12.Borrowed)
	assert.Equal(t, 0., root.Borrowed)
}
