package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// crowd is a capacity over tenants of equal size with, in all, n leaves of which no two are alike.
func crowd(n, tenants int) *Node {
	r := rand.New(rand.NewPCG(1, 2))
	root := &Node{Rate: 1e6, Ceil: 1e6}
	for range tenants {
		t := &Node{Rate: 5e5 / float64(tenants), Ceil: 1e6 * r.Float64(), Quantum: 1}
		for range n / tenants {
			t.Children = append(t.Children, &Node{
				Rate: 4e5 / float64(n) * r.Float64(), Ceil: 1e3, Prio: r.IntN(8), Quantum: 1 + r.Float64(), Want: 40 * r.Float64(),
			})
		}
		root.Children = append(root.Children, t)
	}
	if tenants == 1 {
		root.Children = root.Children[0].Children
	}
	return root
}

// The ideal is worked out once per step of a replay, and there may be 100 000 clients.
func TestCrowd(t *testing.T) {
	for _, divide := range []func(*Node){strictly, reservedly, Kernel} {
		for _, tenants := range []int{1, 1000} {
			root := crowd(100_000, tenants)
			divide(root)
			lawConservation(t, root)
			if root.Gets < .5e6 || root.Gets > 1e6*(1+1e-9) {
				t.Errorf("root gets %v", root.Gets)
			}
		}
	}
}

func BenchmarkCrowd(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		for _, d := range dialects {
			b.Run(fmt.Sprintf("%s/%d", d.name, tenants), func(b *testing.B) {
				b.ReportAllocs()
				root := crowd(100_000, tenants)
				for b.Loop() {
					d.divide(root)
				}
			})
		}
	}
}
