package sim

import (
	"math"

	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/fair"
)

// ideal is what the fluid allocation keeps of a class from step to step: the
// tokens saved, in units, at the end of the step before upTo.
type ideal struct {
	rate, ceil float64
	reserve    bucket // of an oversubscribed class
	also       []float64
	upTo       int

	want    float64 // offered in this step
	waits   int64   // of a leaf that queues: queued now
	carried float64 // queued when the step began
	asked   []*node // children of the template something was offered to in this step
	askedAt int     // 1 + the step in which n is in the parent's asked
	kept    int     // children that the last prune left
}

// bucket is a fluid one.
type bucket struct{ tokens, size float64 }

func newIdeal(s *htb.Spec) ideal {
	i := ideal{rate: float64(s.Burst), ceil: float64(s.CBurst)}
	if s.Oversubscribed {
		size := float64(s.Reserve())
		i.reserve = bucket{size, size}
	}
	for _, l := range s.Also {
		i.also = append(i.also, float64(l.Burst))
	}
	return i
}

// catchUp fills the buckets for the steps since n was last asked for.
func (n *node) catchUp(step int, length float64) {
	idle := float64(step-n.upTo) * length
	n.rate = min(float64(n.spec.Burst), n.rate+idle*n.spec.Rate.PerSecond())
	n.ceil = min(float64(n.spec.CBurst), n.ceil+idle*n.spec.Ceil.PerSecond())
	n.reserve.tokens = min(n.reserve.size, n.reserve.tokens+idle*n.spec.Rate.PerSecond())
	for i, l := range n.spec.Also {
		n.also[i] = min(float64(l.Burst), n.also[i]+idle*l.Rate.PerSecond())
	}
	n.upTo = step
}

// full says whether n equals a class never asked for.
func (n *node) full() bool {
	full := n.waits == 0 && n.rate == float64(n.spec.Burst) && n.ceil == float64(n.spec.CBurst) && n.reserve.tokens == n.reserve.size
	for i, l := range n.spec.Also {
		full = full && n.also[i] == float64(l.Burst)
	}
	return full
}

// offer books what a leaf is offered in a step.
func (n *node) offer(step int, amount float64) {
	n.want += amount
	for ; n.parent != nil; n = n.parent {
		if n.spec == n.parent.template && n.askedAt != step+1 {
			n.askedAt = step + 1
			n.parent.asked = append(n.parent.asked, n)
		}
	}
}

// division is the fluid allocation of one step.
type division struct {
	step    int
	length  float64 // of a full step, in seconds
	seconds float64 // of this one
	queued  bool    // nothing is rejected: what is left is wanted in the next step, too
	kernel  bool
	classes []*node
	fluid   []*fair.Node // of classes, and some of an earlier step
	left    []*node      // with something queued at the end
}

// divide works out what everybody should have got in a step, and begins the next.
func (d *division) divide(root *node) {
	d.classes = d.classes[:0]
	top := d.demand(root)
	if d.kernel {
		fair.Kernel(top)
	} else {
		fair.Strict(top, fair.Options{Reserve: !d.queued})
	}
	for i, n := range d.classes {
		d.settle(n, d.fluid[i])
	}
	for _, n := range d.left { // asks in the next step, too
		n.offer(d.step+1, 0)
	}
	d.left = d.left[:0]
	root.prune(d.step+1, d.length)
}

// demand makes the fluid node of a class. Children of a template that nobody asked
// for take no part.
func (d *division) demand(n *node) *fair.Node {
	n.catchUp(d.step, d.length)
	if len(d.classes) == len(d.fluid) {
		d.fluid = append(d.fluid, &fair.Node{})
	}
	f := d.fluid[len(d.classes)]
	d.classes = append(d.classes, n)
	*f = fair.Node{
		Children:       f.Children[:0],
		Rate:           n.rate + d.seconds*n.spec.Rate.PerSecond(),
		Ceil:           n.ceil + d.seconds*n.spec.Ceil.PerSecond(),
		Burst:          float64(n.spec.Burst),
		Oversubscribed: n.spec.Oversubscribed,
		Prio:           n.spec.Prio,
		Quantum:        n.spec.Weight(),
		Want:           n.want + n.carried,
	}
	for i, l := range n.spec.Also {
		n.also[i] += d.seconds * l.Rate.PerSecond()
		f.Ceil = min(f.Ceil, n.also[i])
	}
	own, wants := 0.0, 0.0
	for _, children := range [2][]*node{n.named, n.asked} {
		for _, c := range children {
			g := d.demand(c)
			own += min(g.Want, g.Ceil, g.Rate)
			wants += min(g.Want, g.Ceil)
			f.Children = append(f.Children, g)
		}
	}
	if !n.leaf() {
		f.Want = wants // no more than a hint: fair adds up itself
	}
	if n.spec.Oversubscribed {
		n.reserve.tokens = max(0, min(n.reserve.size, n.reserve.tokens+d.seconds*n.spec.Rate.PerSecond()-min(own, f.Rate)))
		f.Hold = n.reserve.tokens
	}
	return f
}

// settle writes the result back.
func (d *division) settle(n *node, f *fair.Node) {
	n.rate = max(0, min(float64(n.spec.Burst), f.Rate-(f.Gets-f.Borrowed)))
	n.ceil = max(0, min(float64(n.spec.CBurst), n.ceil+d.seconds*n.spec.Ceil.PerSecond()-f.Gets))
	for i, l := range n.spec.Also {
		n.also[i] = max(0, min(float64(l.Burst), n.also[i]-f.Gets))
	}
	n.upTo = d.step + 1
	n.want, n.asked = 0, n.asked[:0]
	if n.carried = float64(n.waits); n.carried > 0 && n.parent != nil {
		d.left = append(d.left, n)
	}
	if f.Gets > 0 && !n.sharing() {
		n.row.fair += f.Gets
		n.row.at(d.step).fair += f.Gets
	}
}

// everything is the demand of a flow that is never satisfied.
var everything = math.Inf(1)
