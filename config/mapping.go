package config

import (
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/go-sluice/sluice/algo"
	"gopkg.in/yaml.v3"
)

// mapping is a mapping whose keys the table knows. Its methods read a value of
// one kind each: the zero value when the key is not there, or when what it holds
// is wrong, which is reported once and marked.
type mapping struct {
	*report
	at     spot
	unit   string // of sizes and rates
	where  place
	line   int  // of what names the mapping
	merged bool // has a merge key, so that what seems to be missing may be meant to come from there
	fields []field

	password bool // holds one, which was reported
}

type field struct {
	key  *key
	line int // of the key
	node *yaml.Node
	bad  bool // reported
}

// mapping reads the keys of n, which should be a mapping that may hold what the
// table allows at where. ok is false when it is something else, which is reported
// on line with an example of what to write.
func (r *report) mapping(n *yaml.Node, at spot, line int, where place, example string) (m *mapping, ok bool) {
	m = &mapping{report: r, at: at, where: where, line: line}
	if odd(n) {
		return m, false
	}
	file := ""
	if at == (whole{}) {
		file = "the file "
	}
	if n.Kind != yaml.MappingNode {
		r.say(line, at, file+"is %s where keys are due: write such as %s", what(n), example)
		return m, false
	}
	for _, p := range r.pairs(n, at) {
		k, wrong := lookup(p.name, where)
		if k == nil {
			r.say(p.line, at, "%s", wrong)
			m.password = m.password || where == redisBlock && passwordKey(p.name) != ""
			continue
		}
		m.fields = append(m.fields, field{k, p.line, p.node, false})
	}
	for i := 0; i < len(n.Content); i += 2 {
		m.merged = m.merged || isMerge(n.Content[i])
	}
	for _, k := range needed[where] {
		if m.get(k.name) == nil && !m.merged {
			r.say(line, at, file+"has no %s: write such as %s", k.name, k.example)
		}
	}
	return m, true
}

// needed lists the required keys of each place.
var needed = func() map[place][]*key {
	m := make(map[place][]*key)
	for p := treeTop; p <= serviceBlock; p <<= 1 {
		for _, k := range allowed(p) {
			if k.need {
				m[p] = append(m[p], k)
			}
		}
	}
	return m
}()

// get returns the field of a name, nil when it is not there.
func (m *mapping) get(name string) *field {
	i := slices.IndexFunc(m.fields, func(f field) bool { return f.key.name == name })
	if i < 0 {
		return nil
	}
	return &m.fields[i]
}

func (m *mapping) has(name string) bool { return m.get(name) != nil }

// failed reports whether the value of a name is there and was reported.
func (m *mapping) failed(name string) bool {
	f := m.get(name)
	return f != nil && f.bad
}

// wrong reports a field.
func (m *mapping) wrong(f *field, format string, args ...any) {
	f.bad = true
	m.say(f.line, m.at, f.key.name+" "+format, args...)
}

// scalar returns the text of a value; ok is false when there is none to read.
func (m *mapping) scalar(name string) (f *field, text string, ok bool) {
	f = m.get(name)
	switch {
	case f == nil:
		return nil, "", false
	case odd(f.node):
		f.bad = true
		return f, "", false
	case f.node.Kind != yaml.ScalarNode || f.node.Tag == "!!null":
		m.wrong(f, "is %s: write such as %s", what(f.node), f.key.example)
		return f, "", false
	}
	return f, f.node.Value, true
}

// text reads a text that is not empty, and not long enough to trouble anyone.
func (m *mapping) text(name string) string {
	f, s, ok := m.scalar(name)
	switch {
	case !ok:
		return ""
	case f.node.Tag != "!!str":
		m.wrong(f, "%.40s is not text in YAML: write it in quotes", s)
	case s == "":
		m.wrong(f, "is empty: write such as %s", f.key.example)
	case len(s) > maxName:
		m.wrong(f, "has %d bytes, the most is %d", len(s), maxName)
	default:
		return s
	}
	return ""
}

// choice reads one of the words that the table lists; the first when it is not there.
func (m *mapping) choice(name string) string {
	f, s, ok := m.scalar(name)
	if !ok {
		for _, k := range rows[name] {
			if k.where&m.where != 0 {
				return k.choices[0]
			}
		}
	}
	if ok && !slices.Contains(f.key.choices, s) {
		m.wrong(f, "%.40q is not known%s: write one of %s", s, didYouMean(s, f.key.choices), join(f.key.choices))
		return f.key.choices[0]
	}
	return s
}

func (m *mapping) flag(name string) bool {
	f, s, ok := m.scalar(name)
	if ok && f.node.Tag != "!!bool" {
		m.wrong(f, "%.40q is neither true nor false: write %s", s, f.key.example)
	}
	return ok && !f.bad && (s[0] == 't' || s[0] == 'T')
}

// rate also returns how many units the text names before the period.
func (m *mapping) rate(name string) (algo.Rate, *big.Rat) {
	f, s, ok := m.scalar(name)
	if !ok {
		return algo.Rate{}, nil
	}
	r, n, err := parseRate(s, m.unit)
	if err != nil {
		m.wrong(f, "%.40q %v", s, err)
	}
	return r, n
}

func (m *mapping) size(name string) int64 { return m.whole(name, m.unit) }

func (m *mapping) count(name string) int {
	n := m.whole(name, "")
	const most = 1 << 31 // so that an int holds it anywhere
	if n >= most {
		m.wrong(m.get(name), "%d is too many: write less than %d", n, int64(most))
		return 0
	}
	return int(n)
}

func (m *mapping) whole(name, unit string) int64 {
	f, s, ok := m.scalar(name)
	if !ok {
		return 0
	}
	n, err := parseSize(s, unit)
	if err != nil {
		m.wrong(f, "%.40q %v", s, err)
	}
	return n
}

// prio reads any whole number: its range is htb's to check.
func (m *mapping) prio(name string) int {
	f, s, ok := m.scalar(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || f.node.Tag != "!!int" {
		m.wrong(f, "%.40q is no whole number: write 0 to 7 (0 borrows first)", s)
	}
	return int(n)
}

func (m *mapping) interval(name string) time.Duration {
	d := m.moment(name)
	if f := m.get(name); f != nil && !f.bad && d == 0 {
		m.wrong(f, "%.40q is no time at all: write such as %s", f.node.Value, f.key.example)
	}
	return d
}

func (m *mapping) moment(name string) time.Duration {
	f, s, ok := m.scalar(name)
	if !ok {
		return 0
	}
	d, err := parseDuration(s)
	if err != nil {
		m.wrong(f, "%.40q %v", s, err)
	}
	return d
}
