package config

import (
	"math/big"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"gopkg.in/yaml.v3"
)

// tree reads the classes of a file.
type tree struct {
	*report
	unit     string
	redis    bool // the file has a redis: block
	classes  int
	warnings report
}

// What sync may be. The least is twice the time that a call to Redis may take; the most,
// how long gateways may admit what the others have used already.
const (
	minSync = 10 * time.Millisecond
	maxSync = time.Minute
)

// class reads a class and those below it. A class that cannot be read is kept as
// a broken one: leaving it out would change what its parent is.
func (t *tree) class(n *yaml.Node, path classPath, line int) (htb.Spec, *Class) {
	s, c := htb.Spec{}, &Class{Line: line}
	if len(path) > 0 {
		s.Name = path[len(path)-1]
		c.name = s.Name
	}
	m, ok := t.mapping(n, path, line, role(n, path), "{rate: 100/s}")
	if !ok {
		c.broken = true
		return s, c
	}
	m.unit, c.broken = t.unit, m.merged
	t.children(m, path, &s, c)
	t.own(m, &s)

	c.Limit, c.MaxWait, c.Pool = m.count("limit"), m.interval("maxWait"), m.count("pool")
	s.Limit, s.MaxWait = c.Limit, c.MaxWait
	t.shared(m, &s)
	for _, f := range m.fields {
		if f.key.name != "children" { // what htb says of those is about the class
			c.marks = append(c.marks, mark{f.key.name, f.line, f.bad})
		}
	}
	return s, c
}

// shared reads where the class is kept, and whom it is settled with.
func (t *tree) shared(m *mapping, s *htb.Spec) {
	s.Remote, s.Sync = m.choice("store") == "redis", m.interval("sync")
	store, sync := m.get("store"), m.get("sync")
	for _, f := range [...]*field{store, sync} {
		if f != nil && !f.bad && !t.redis && (f == sync || s.Remote) {
			m.wrong(f, `needs a server: write redis: {addr: "localhost:6379"} at the top of the file, or take it out`)
		}
	}
	switch {
	case s.Sync == 0:
	case s.Sync < minSync:
		m.wrong(sync, "%v is more often than gateways need to hear of each other: write 10ms or more", s.Sync)
	case s.Sync > maxSync:
		m.wrong(sync, "%v is too long for gateways not to hear of each other: write 1m or less", s.Sync)
	}
}

// role says which of the six kinds of class n is.
func role(n *yaml.Node, path classPath) place {
	inner := false
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		inner = inner || n.Content[i].Value == "children"
	}
	set := plainLeaf | plainInner
	switch {
	case len(path) == 0:
		set = roots
	case path[len(path)-1] == htb.Template:
		set = templates
	}
	if inner {
		return set & inners
	}
	return set & leaves
}

// own reads what goes into the Spec. Where a value could not be read it takes
// the one that htb is sure not to complain of.
func (t *tree) own(m *mapping, s *htb.Spec) {
	s.Rate, _ = m.rate("rate")
	s.Ceil, _ = m.rate("ceil")
	if m.failed("ceil") {
		s.Ceil = s.Rate
		for _, child := range s.Children {
			for _, r := range [...]algo.Rate{child.Rate, child.Ceil} {
				if r.Compare(s.Ceil) > 0 || s.Ceil.IsZero() {
					s.Ceil = r
				}
			}
		}
	}
	s.Burst, s.CBurst = m.size("burst"), m.size("cburst")
	if m.failed("burst") {
		s.CBurst = 0
		if len(s.Children) == 0 {
			s.Burst = 1 // its parent's must cover it
		}
	}
	s.Prio, s.Quantum = m.prio("prio"), m.size("quantum")
	s.Max, s.Idle = m.count("max"), m.moment("idle")
	s.Oversubscribed = m.flag("oversubscribed")
	s.Also = t.also(m)
}

// also reads further limits: rates, or mappings of rate and burst.
func (t *tree) also(m *mapping) []htb.Limit {
	f := m.get("also")
	if f == nil || odd(f.node) {
		return nil
	}
	if f.node.Kind != yaml.SequenceNode || len(f.node.Content) == 0 {
		what := what(f.node)
		if f.node.Kind == yaml.SequenceNode {
			what = "an empty list"
		}
		m.wrong(f, "is %s: write a list of further limits, such as %s", what, f.key.example)
		return nil
	}
	at := part{m.at, "also"}
	var list []htb.Limit
	for _, n := range f.node.Content {
		// A plain rate reads like a mapping with nothing but a rate.
		entry := &mapping{report: t.report, at: at, line: n.Line, where: limitEntry}
		if n.Kind == yaml.ScalarNode {
			k, _ := lookup("rate", limitEntry)
			entry.fields = []field{{k, n.Line, n, false}}
		} else if e, ok := t.mapping(n, at, n.Line, limitEntry, f.key.example); ok {
			entry = e
		}
		entry.unit = t.unit
		r, named := entry.rate("rate")
		l := htb.Limit{Rate: r, Burst: entry.size("burst")}
		if named != nil && !entry.has("burst") {
			up := new(big.Int).Add(named.Num(), new(big.Int).Sub(named.Denom(), big.NewInt(1)))
			up.Quo(up, named.Denom())
			if !up.IsInt64() {
				entry.wrong(entry.get("rate"), "names more units at once than can be counted: write {rate: ..., burst: ...}")
			}
			l.Burst = up.Int64()
		}
		if r.IsZero() || l.Burst < 1 || entry.failed("rate") {
			f.bad = true
			continue
		}
		list = append(list, l)
	}
	return list
}

// children reads the classes below one into s and c.
func (t *tree) children(m *mapping, path classPath, s *htb.Spec, c *Class) {
	f := m.get("children")
	if f == nil || odd(f.node) {
		return
	}
	if f.node.Kind != yaml.MappingNode || len(f.node.Content) == 0 {
		what := what(f.node)
		if f.node.Kind == yaml.MappingNode {
			what = "an empty mapping"
		}
		m.wrong(f, "is %s: write a line for each class, such as acme: {rate: 100/s}, or take it out", what)
		return
	}
	if len(path) >= htb.MaxDepth {
		return // htb says that this class is too deep; what is below it goes with it
	}
	for _, p := range t.pairs(f.node, path) {
		switch t.classes++; {
		case t.classes == maxClasses+1:
			t.say(p.line, path, "the file lists more than %d classes", maxClasses)
			return
		case t.classes > maxClasses:
			return
		case len(p.name) > maxName: // not to htb: its paths would be longer than the file
			t.say(p.line, path, "the name %.40q... has %d bytes, the most is %d", p.name, len(p.name), maxName)
			continue
		}
		child, settings := t.class(p.node, append(path[:len(path):len(path)], p.name), p.line)
		s.Children = append(s.Children, child)
		c.Children = append(c.Children, settings)
	}
	if len(c.Children) > fewChildren {
		c.index = make(map[string]int, len(c.Children))
		for i, child := range c.Children {
			c.index[child.name] = i
		}
	}
}

// check asks htb and puts what it says on lines.
func (t *tree) check(f *File, shape bool) {
	mistakes := f.Root.Check
	switch {
	case f.Semantics == "kernel":
		mistakes = func() htb.Mistakes { return f.Root.CheckShape(htb.Kernel) }
	case shape:
		mistakes = func() htb.Mistakes { return f.Root.CheckShape(htb.Strict) }
	}
	for _, m := range mistakes() {
		line, told := f.Settings.place(m)
		switch {
		case told:
		case m.Warning:
			t.warnings.say(line, classPath(m.Path), "%s", m.Text)
		default:
			t.say(line, classPath(m.Path), "%s", m.Text)
		}
	}
	t.warnings.file = t.file
}

// notes warns of what Redis does not do for the class s and those below it, and reports
// whether a leaf among them is kept there.
func (t *tree) notes(s htb.Spec, c *Class, path classPath) (remote bool) {
	remote = s.Remote
	for i, child := range c.Children {
		remote = t.notes(s.Children[i], child, append(path[:len(path):len(path)], child.name)) || remote
	}
	switch {
	case s.Sync > 0 && !s.Rate.IsZero() && s.Rate.Takes(1) > s.Sync:
		exact := "store: redis keeps such a class exactly"
		if len(c.Children) > 0 {
			exact = "store: redis on the leaves below keeps those exactly"
		}
		t.warnings.say(c.line("sync"), path, "sync %v brings less than one unit at %v, so gateways agree in the long run only: %s", s.Sync, s.Rate, exact)
	case s.Sync == 0 && remote && len(c.Children) > 0:
		line, said := c.Line, []string(nil)
		for _, k := range c.marks {
			if k.name == "rate" || k.name == "ceil" {
				line, said = k.line, append(said, k.name)
			}
		}
		if len(said) > 0 {
			t.warnings.say(line, path, "%s is counted on each gateway alone, though leaves below it are in Redis: write sync: 100ms to share what it has", strings.Join(said, " as well as "))
		}
	}
	return remote
}
