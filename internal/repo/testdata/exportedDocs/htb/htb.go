package htb

type Bare struct{ inner int } // want

// Class has a comment.
type Class struct {
	Rate int
}

// Leaf is what a class talks to.
type Leaf interface {
	// Take has a comment.
	Take(int) bool
	Give(int) // want
}

// Take has a comment.
func (c *Class) Take() {}

func (c *Class) Give() {} // want

func (l *List[T]) Len() int { return 0 } // want

func (h hidden) Len() int { return 0 }

type hidden int

// List is generic.
type List[T any] []T

func Exported() {} // want

func unexported() {}

// The modes.
const (
	CanSend = iota
	MayBorrow
)

const (
	A = 1 // at the end of the line
	B = 2 // want
	// C has a comment.
	C = 3
)

type (
	Inner int // want
	// Outer has a comment.
	Outer int
)

//go:noinline
func Directive() {} // want
