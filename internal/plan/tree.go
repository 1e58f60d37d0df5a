package plan

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/config"
)

// node is a class of the tree to be written.
type node struct {
	name     string
	limit    algo.Limit
	burst    int64 // with what its parent must cover: of an inner class that of its children, and headroom
	largest  int64 // burst of a leaf below
	template bool  // it is, or is above, one
	class    *Class
	children []*node
}

// Tree writes the plan as a tree file, with what each number would have refused; source
// says where the traffic is from, unit what costs count.
func (p *Plan) Tree(w io.Writer, source, unit string) error {
	root := &node{name: "global"}
	for i := range p.Classes {
		c := &p.Classes[i]
		if over := c.over(); over != "" {
			return fmt.Errorf("plan: no tree refuses as little as was asked: %s; a longer --saved gives larger bursts", over)
		}
		at := root
		for _, name := range c.Path[:len(c.Path)-1] {
			if !named([]string{name}) {
				return fmt.Errorf("plan: no tree can have the class %q: no class above others may be called %q", c.Name(), name)
			}
			at = at.child(name)
		}
		at.children = append(at.children, &node{name: c.Path[len(c.Path)-1], class: c})
	}
	root.add()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Planned by htbsim plan for %s: %d requests in %s.\n", oneLine(source), p.Requests, (time.Duration(p.Seconds * 1e9)).Round(time.Second))
	fmt.Fprintf(&b, "# Each limit refuses at most %s of its class's requests when they come %v times as fast.\n", Percent(p.Refuse), p.Growth)
	fmt.Fprintf(&b, "# The classes do not borrow: write a ceil above the rate for those that may.\ntree: plan\nunit: %s\n", unit)
	p.write(&b, root, "")
	// What is written is what is read.
	if _, err := config.Parse("the planned tree", b.Bytes()); err != nil {
		return fmt.Errorf("plan: no tree can be made of these classes: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// child returns the inner class of that name, made if there is none. Classes come in the
// order of what is above them, so it is the last one or new.
func (n *node) child(name string) *node {
	if i := len(n.children) - 1; i < 0 || n.children[i].name != name || n.children[i].class != nil {
		n.children = append(n.children, &node{name: name})
	}
	return n.children[len(n.children)-1]
}

// add works out the limits of n from those of its children.
func (n *node) add() {
	if c := n.class; c != nil {
		n.limit = c.Planned.Limit
		n.burst, n.largest, n.template = n.limit.Burst, n.limit.Burst, c.Template()
		return
	}
	sum := new(big.Rat)
	for _, c := range n.children {
		c.add()
		rate := c.limit.Rate
		n.burst = plus(n.burst, c.burst)
		if c.class != nil && c.template {
			rate = c.class.Together.Rate
			n.burst = plus(n.burst, c.class.Together.Burst)
		}
		sum.Add(sum, rate.Fraction())
		n.largest, n.template = max(n.largest, c.largest), n.template || c.template
	}
	perSecond, _ := sum.Float64()
	n.limit.Rate = round(perSecond * 1e9)
	if n.limit.Rate.Fraction().Cmp(sum) < 0 { // by what floats lose
		n.limit.Rate = round(perSecond * 1e9 * 1.001)
	}
	n.burst = plus(n.burst, max(n.largest, n.limit.Rate.Over(time.Second/10)))
}

func (p *Plan) write(b *bytes.Buffer, n *node, indent string) {
	fmt.Fprintf(b, "%s%s:\n", indent, name(n, indent))
	indent += "  "
	switch c := n.class; {
	case c == nil:
		fmt.Fprintf(b, "%srate: %v   # what its children need\n", indent, n.limit.Rate)
		if n.template { // its default would be for a second of its rate, whatever its children have
			fmt.Fprintf(b, "%sburst: %d\n", indent, n.burst)
		}
		fmt.Fprintf(b, "%schildren:\n", indent)
		for _, c := range n.children {
			p.write(b, c, indent+"  ")
		}
	default:
		of := fmt.Sprintf("%d requests", c.Requests)
		if c.Template() {
			of += fmt.Sprintf(" of %d names with fewer than %d each", c.Names, p.Few)
		}
		if p.Seconds > 0 {
			of += fmt.Sprintf(", on average %s units/s", number(float64(c.Units)/p.Seconds))
		}
		fmt.Fprintf(b, "%s# %s, the largest %d\n", indent, of, c.Largest)
		f := c.Planned
		fmt.Fprintf(b, "%srate: %v   # would have refused %s; %s when %v times as fast\n%sburst: %d\n", indent, f.Limit.Rate, Percent(c.Recorded), Percent(f.Refused), p.Growth, indent, f.Limit.Burst)
		for _, f := range c.Fits {
			fmt.Fprintf(b, "%s# %v with burst %d would have refused %s\n", indent, f.Limit.Rate, f.Limit.Burst, Percent(f.Refused))
		}
		if measurable := p.Refuse * float64(c.Requests); measurable < 10 {
			fmt.Fprintf(b, "%s# %s of them are %s requests: a guess, plan again with more traffic\n", indent, Percent(p.Refuse), number(measurable))
		}
	}
}

var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// name writes a class's name as a key, quoted where YAML might take it for something else.
func name(n *node, indent string) string {
	if plain.MatchString(n.name) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(n.name)) {
		return n.name
	}
	key := quote(n.name)
	if len(key) > 1000 { // YAML ends its search for the colon after 1024 characters
		return "? " + key + "\n" + indent
	}
	return key
}

// quote writes a name, which is UTF-8, as a double-quoted scalar of YAML: printable ASCII
// and letters as they are, all else by number.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range name {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c >= ' ' && c < 0x7f || unicode.IsLetter(c):
			b.WriteRune(c)
		case c <= 0xff:
			fmt.Fprintf(&b, `\x%02X`, c)
		case c <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			fmt.Fprintf(&b, `\U%08X`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// oneLine keeps a name from outside within its comment.
func oneLine(s string) string { return strings.Trim(strconv.Quote(s), `"`) }

// Percent writes a share with two digits or so.
func Percent(share float64) string { return number(100*share) + " %" }

func number(v float64) string {
	if v == 0 || v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
