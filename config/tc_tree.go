package config

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-sluice/sluice/htb"
)

// qdisc reads an htb qdisc line from after its verb.
func (t *tc) qdisc(line int, words []word) {
	o := options{tc: t, line: line, at: whole{}, values: map[string]word{}}
	rest, ok := o.head(words, "qdisc")
	if !ok {
		return
	}
	o.device()
	q := tcQdisc{line: line}
	if w, ok := o.value("handle"); ok && w.text != "" {
		if q.handle, ok = parseClassID(w.text); !ok || !q.handle.isQdisc() {
			o.say(w.line, o.at, "handle %.40q is none: write a hexadecimal number and a colon, such as 1:", w.text)
		}
	}
	for i := 0; i < len(rest); i++ {
		switch w := rest[i]; {
		case w.text == "offload":
		case w.text != "default" && w.text != "r2q" && w.text != "direct_qlen":
			o.say(w.line, o.at, "%.40q is no option of the htb qdisc: write r2q, or leave it out", w.text)
			return
		case i+1 == len(rest):
			o.say(w.line, o.at, "%s has no value: write such as %s 10", w.text, w.text)
		default:
			i++
			if w.text != "r2q" {
				continue
			}
			if q.r2q = o.number("r2q", rest[i]); q.r2q == 0 && zeroForm(rest[i].text) {
				o.say(rest[i].line, o.at, "r2q 0 divides by nothing: write 1 or more")
			}
		}
	}
	t.qdiscs = append(t.qdiscs, q)
}

// chooseQdisc takes r2q from the qdisc that the classes belong to.
func (t *tc) chooseQdisc() {
	if len(t.classes) == 0 {
		return
	}
	major := t.classes[0].id.qdisc()
	for _, q := range t.qdiscs {
		switch {
		case q.handle != 0 && q.handle != major:
			t.warnings.say(q.line, whole{}, "the htb qdisc %x: has no class here and is not read", q.handle.major())
		case q.r2q > 0:
			t.r2q = q.r2q
		}
	}
}

// quantumOf returns the quantum of c, of a leaf with a warning where tc would give one.
func (t *tc) quantumOf(c *tcClass) int64 {
	if c.quantum > 0 {
		return c.quantum
	}
	const least, most = 1000, 200_000
	perSecond := new(big.Rat).Mul(c.rate.Fraction(), big.NewRat(1_000_000_000, 1)).Num().Int64() // whole, see rate
	q := perSecond / t.r2q
	clamped := min(max(q, least), most)
	if q != clamped && len(c.children) == 0 {
		t.warnings.say(c.line, c.id, "quantum rate/r2q would be %d and is %d, no longer in proportion to the rate: write quantum, or r2q in the line of the qdisc", q, clamped)
	}
	return clamped
}

// build returns what the file says of c and those below it.
func (t *tc) build(c *tcClass, path []string, paths map[string][]string) (htb.Spec, *Class) {
	name := c.id.String()
	paths[name] = path
	s := htb.Spec{Name: name, Rate: c.rate, Ceil: c.ceil, Burst: c.burst, CBurst: c.cburst, Prio: c.prio, Quantum: t.quantumOf(c)}
	settings := &Class{Line: c.line, name: name, marks: c.marks}
	for _, child := range c.children {
		spec, below := t.build(child, append(path[:len(path):len(path)], child.id.String()), paths)
		s.Children = append(s.Children, spec)
		settings.Children = append(settings.Children, below)
	}
	if len(settings.Children) > fewChildren {
		settings.index = make(map[string]int, len(settings.Children))
		for i, below := range settings.Children {
			settings.index[below.name] = i
		}
	}
	return s, settings
}

// link puts the classes below each other and returns the one on top. Without a
// mistake so far there is one, and every other is below it.
func (t *tc) link() *tcClass {
	var tops []*tcClass
	for _, c := range t.classes {
		parent := t.byID[c.parent]
		switch {
		case c.onTop && c.id.qdisc() != t.classes[0].id.qdisc(): // which was reported
		case c.onTop:
			tops = append(tops, c)
		case parent != nil:
			parent.children = append(parent.children, c)
			if parent.line > c.line {
				t.warnings.say(c.line, c.id, "stands above its parent, %v, on line %d: tc would refuse it, put the parent first", parent.id, parent.line)
			}
		case c.parent != 0 && !t.lost:
			t.say(c.line, c.id, "its parent, %v, is not in the file: add a class line for it, or write the classid of another", c.parent)
		}
	}
	for _, c := range t.classes {
		slices.SortFunc(c.children, func(a, b *tcClass) int { return cmp.Compare(a.id, b.id) })
	}
	t.cycles()
	for _, c := range tops {
		t.levels(c, 1)
	}
	switch {
	case len(t.classes) == 0 && len(t.list) == 0:
		t.say(1, whole{}, "the file adds no class: write such as class add dev eth0 parent 1: classid 1:1 htb rate 10mbit")
	case len(tops) > 1:
		t.manyTops(tops)
	case len(tops) == 1:
		return tops[0]
	}
	return nil
}

// cycles reports each ring of classes once, on its first line.
func (t *tc) cycles() {
	walk := make(map[*tcClass]int, len(t.classes)) // the walk, from 1, that came by first
	for i, c := range t.classes {
		for c != nil && walk[c] == 0 {
			walk[c] = i + 1
			c = t.byID[c.parent]
		}
		if c == nil || walk[c] != i+1 {
			continue // ended above, or where an earlier walk has been
		}
		first, ring := c, []string{}
		for d := c; len(ring) == 0 || d != c; d = t.byID[d.parent] {
			ring = append(ring, d.id.String())
			if d.line < first.line {
				first = d
			}
		}
		const told = 8
		if len(ring) > told {
			ring = append(ring[:told], "...")
		} else {
			ring = append(ring, ring[0])
		}
		t.say(first.line, first.id, "is below itself (%s): write parent %x: for the one at the top", strings.Join(ring, " is below "), first.id.major())
	}
}

// manyTops says how to put one class above several. Without one htb has nobody to
// lend to them, so that it need not lend either.
func (t *tc) manyTops(tops []*tcClass) {
	ids := make([]string, 0, len(tops))
	sum := new(big.Rat)
	for _, c := range tops {
		sum.Add(sum, c.rate.Fraction())
		if len(ids) < 4 {
			ids = append(ids, c.id.String())
		}
	}
	if n := len(tops) - len(ids); n > 0 {
		ids = append(ids, fmt.Sprintf("%d more", n))
	}
	sum.Mul(sum, big.NewRat(8_000_000_000, 1)) // in bits per second
	above := tops[0].id.qdisc() | 0xffff
	for t.byID[above] != nil && !above.isQdisc() {
		above--
	}
	last := len(ids) - 1
	t.say(tops[1].line, tops[1].id, "is at the top as well (%s and %s), and a tree has one root: add class add dev %s parent %x: classid %v htb rate %sbit, write parent %v in theirs, and leave out their ceil, since at the top they borrow nothing",
		strings.Join(ids[:last], ", "), ids[last], cmp.Or(t.dev.text, "eth0"), above.major(), above, sum.FloatString(0), above)
}

// levels reports the classes on the first level that is too deep; what is below
// them goes with them.
func (t *tc) levels(c *tcClass, level int) {
	if level > htb.MaxDepth {
		t.say(c.line, c.id, "is on level %d of at most %d: take a level out above it", level, htb.MaxDepth)
		return
	}
	for _, child := range c.children {
		t.levels(child, level+1)
	}
}
