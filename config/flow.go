package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sluice/sluice/htb"
	"gopkg.in/yaml.v3"
)

// flowName is the spot of a flow: its number in the file, from 1, and its class.
type flowName struct {
	number int
	class  string
}

func (f flowName) String() string {
	if f.class == "" {
		return fmt.Sprintf("flow %d", f.number)
	}
	return fmt.Sprintf("flow %d %.80q", f.number, f.class)
}

// flow reads one flow of a load that lasts for duration.
func (r *report) flow(n *yaml.Node, number int, duration time.Duration, unit string) Flow {
	at := flowName{number: number}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == "class" && n.Content[i+1].Kind == yaml.ScalarNode {
			at.class = n.Content[i+1].Value
		}
	}
	m, ok := r.mapping(n, at, n.Line, flowEntry, "{class: acme, arrivals: backlogged}")
	if !ok {
		return Flow{}
	}
	m.unit = unit
	f := Flow{
		Line: n.Line, Cost: m.cost(), Service: m.service(), Zipf: m.exponent("zipf"),
		From: m.moment("from"), To: m.interval("to"),
		On: m.interval("on"), Off: m.interval("off"),
		At: m.moment("at"), Over: m.moment("over"), Count: m.whole("count", ""),
	}
	f.Rate, _ = m.rate("rate")
	if m.has("arrivals") {
		a := m.choice("arrivals")
		f.Arrivals = Arrivals(slices.Index(arrivalNames[:], a))
		if !m.failed("arrivals") {
			m.fits(f.Arrivals)
		}
	}
	if f.To == 0 {
		f.To = duration
	}
	f.Class, f.Clients = m.class()
	m.times(f, duration)
	return f
}

// uses says which keys go with which arrivals, and which of them those need.
var uses = [...]struct {
	name string
	by   map[Arrivals]bool // true: needed
}{
	{"rate", map[Arrivals]bool{Poisson: true, Constant: true, OnOff: true}},
	{"on", map[Arrivals]bool{OnOff: true}},
	{"off", map[Arrivals]bool{OnOff: true}},
	{"at", map[Arrivals]bool{Burst: true}},
	{"count", map[Arrivals]bool{Burst: true}},
	{"over", map[Arrivals]bool{Burst: false}},
}

// fits reports keys that do not go with a, and those that a needs.
func (m *mapping) fits(a Arrivals) {
	for _, u := range uses {
		need, may := u.by[a]
		switch f := m.get(u.name); {
		case f == nil && need:
			k, _ := lookup(u.name, flowEntry)
			m.say(m.line, m.at, "arrivals %v need %s: write such as %s", a, u.name, k.example)
		case f != nil && !may:
			var by []string
			for b := Backlogged; b <= Burst; b++ {
				if _, ok := u.by[b]; ok {
					by = append(by, b.String())
				}
			}
			m.wrong(f, "is not for arrivals %v but for %s: take it out", a, join(by))
		}
	}
}

// class reads the path and the number of clients, which go together.
func (m *mapping) class() ([]string, int) {
	n := m.count("clients")
	if n > maxClients {
		m.wrong(m.get("clients"), "%d is too many: write at most %d", n, maxClients)
	}
	path := m.text("class")
	f := m.get("class")
	if f == nil || f.bad {
		return nil, n
	}
	names, err := htb.ParsePath(path)
	if err != nil {
		_, why, _ := strings.Cut(strings.TrimPrefix(err.Error(), "htb: path "), ": ")
		m.wrong(f, "%.80q: %s", path, why)
		return nil, n
	}
	many := path == htb.Template || strings.HasSuffix(path, "/"+htb.Template)
	for i, name := range names {
		last := i == len(names)-1
		switch {
		case name != htb.Template || last && many:
			continue
		case last:
			m.wrong(f, "%.80q is a class called *, which a load cannot ask for: write another name", path)
		default:
			m.wrong(f, "%.80q has a * that is not its last name: write the name of one class there", path)
		}
		return nil, n
	}
	switch {
	case many && !m.has("clients"):
		m.wrong(f, "%.80q ends in *: write clients: 100 for how many leaves, or the name of one", path)
	case !many && m.has("clients"):
		m.wrong(m.get("clients"), `is for a class that ends in *: write class: "%s/*", or take it out`, path)
	}
	if z := m.get("zipf"); z != nil && !m.has("clients") {
		m.wrong(z, "is for a flow with clients: write clients: 100 beside it, or take it out")
	}
	return names, n
}

// times checks that the flow lies within the load.
func (m *mapping) times(f Flow, duration time.Duration) {
	for _, name := range [...]string{"from", "to", "at", "over"} {
		if m.failed(name) {
			return
		}
	}
	if t := m.get("to"); t != nil && f.To > duration {
		m.wrong(t, "%v is after the end of the load: write at most %v, or leave it out", f.To, duration)
		return
	}
	if t := m.get("from"); t != nil && f.From >= f.To {
		m.wrong(t, "%v is not before its end, %v", f.From, f.To)
		return
	}
	if t := m.get("at"); t != nil && (f.At < f.From || f.At >= f.To || f.Over > f.To-f.At) {
		m.wrong(t, "%v and over %v do not lie between the flow's start, %v, and its end, %v", f.At, f.Over, f.From, f.To)
	}
}

// cost reads a number or {min, max}.
func (m *mapping) cost() Cost {
	f := m.get("cost")
	switch {
	case f == nil:
		return Cost{1, 1}
	case f.node.Kind != yaml.MappingNode:
		n := m.size("cost")
		return Cost{n, n}
	}
	b, _ := m.mapping(f.node, part{m.at, "cost"}, f.line, costBlock, f.key.example)
	b.unit = m.unit
	c := Cost{b.size("min"), b.size("max")}
	if b.has("min") && b.has("max") && !b.failed("min") && !b.failed("max") && c.Min > c.Max {
		b.wrong(b.get("min"), "%d is above max %d: write the smaller one first", c.Min, c.Max)
	}
	return c
}

// service reads a duration or {exponential: mean}.
func (m *mapping) service() Service {
	f := m.get("service")
	if f == nil || f.node.Kind != yaml.MappingNode {
		return Service{Mean: m.interval("service")}
	}
	b, _ := m.mapping(f.node, part{m.at, "service"}, f.line, serviceBlock, "{exponential: 20ms}")
	return Service{b.interval("exponential"), true}
}

// exponent reads a number of 0 or more, a fraction if need be.
func (m *mapping) exponent(name string) float64 {
	f, s, ok := m.scalar(name)
	if !ok {
		return 0
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || f.node.Tag != "!!int" && f.node.Tag != "!!float" || math.IsInf(x, 0) || !(x >= 0) {
		m.wrong(f, "%.40q is no number of 0 or more: write such as %s", s, f.key.example)
		return 0
	}
	return x
}

// join writes a list of words: "a", "a or b", "a, b or c".
func join(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
