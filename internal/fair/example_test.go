package fair_test

import (
	"fmt"
	"math"

	"github.com/go-sluice/sluice/internal/fair"
)

// The example of the package comment.
func ExampleStrict() {
	alice := &fair.Node{Rate: 50, Ceil: 300, Want: math.Inf(1)}
	bob := &fair.Node{Rate: 50, Ceil: 300, Want: 120}
	acme := &fair.Node{Rate: 600, Ceil: 1000, Want: 500}
	free := &fair.Node{Rate: 100, Ceil: 400, Children: []*fair.Node{alice, bob}}
	global := &fair.Node{Rate: 1000, Ceil: 1000, Children: []*fair.Node{acme, free}}

	fair.Strict(global, fair.Options{})
	fmt.Println("global", global.Gets)
	fmt.Println("acme", acme.Gets)
	fmt.Println("free", free.Gets, "borrowed", free.Borrowed)
	fmt.Println("free/alice", alice.Gets, "borrowed", alice.Borrowed)
	fmt.Println("free/bob", bob.Gets, "borrowed", bob.Borrowed)
	// Output:
	// global 900
	// acme 500
	// free 400 borrowed 300
	// free/alice 280 borrowed 230
	// free/bob 120 borrowed 70
}
