package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 16 << 20

// document parses data, which must hold one YAML document. It says what is wrong
// with it; ok is false when there is nothing to go on with.
func (r *report) document(data []byte) (n *yaml.Node, ok bool) {
	if len(data) > maxFile {
		r.say(1, whole{}, "the file has %d bytes, the most is %d", len(data), maxFile)
		return nil, false
	}
	next := documents(data)
	doc, err := next()
	switch {
	case errors.Is(err, io.EOF):
		r.say(1, whole{}, "the file is empty")
		return nil, false
	case err != nil:
		r.syntax(err, data)
		return nil, false
	}
	switch second, err := next(); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntax(err, data)
	default:
		r.say(second.Line, whole{}, "a second document starts here, and would not be read: put it in a file of its own, or take out the line ---")
	}
	r.plain(doc, false)
	return doc.Content[0], true
}

// documents returns a function that returns one document of data after the
// other, then io.EOF. yaml.v3 panics on some inputs; that is a syntax error, too.
func documents(data []byte) func() (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	return func() (n *yaml.Node, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("yaml: cannot be read: %v", p)
			}
		}()
		n = new(yaml.Node)
		if err := dec.Decode(n); err != nil {
			return nil, err
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
			return nil, errors.New("yaml: cannot be read")
		}
		return n, nil
	}
}

var (
	syntaxExp = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line ([0-9]+): )?(.*)$`)
	// The parser's messages name lines from 0, the scanner's (all others) from 1.
	parserExp = regexp.MustCompile(`^(did not find expected (',' or|key|'-' indicator|node content|<)|found (duplicate|incompatible|undefined))`)
	anchorExp = regexp.MustCompile(`(?s)^unknown anchor '(.*)' referenced$`)
)

// syntax reports an error of yaml's, with its line as far as that can be found.
func (r *report) syntax(err error, data []byte) {
	m := syntaxExp.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	msg := m[2]
	switch a := anchorExp.FindStringSubmatch(msg); {
	case a != nil:
		before, _, _ := bytes.Cut(data, []byte("*"+a[1]))
		of := "*" + a[1]
		if i := bytes.LastIndexByte(before, '\n'); secret(string(before[i+1:])) {
			of = "what begins with *"
		}
		r.say(1+breaks(before), whole{}, `%.40s is an alias in YAML, of nothing: write out what is meant, and a template as "*" in quotes`, of)
		return
	case strings.Contains(msg, "alphabetic or numeric character"):
		msg += `: a template is written as "*" in quotes`
	case strings.Contains(msg, "cannot start any token") && bytes.Contains(data, []byte("\t")):
		msg += ": indent with spaces, not tabs"
	}
	switch {
	case m[1] == "":
		line = firstOdd(data)
	case parserExp.MatchString(msg):
		line++
	}
	r.say(min(line, 1+breaks(data)), whole{}, "not YAML: %s", msg)
}

// breaks counts the line breaks in data, of every kind that YAML knows.
func breaks(data []byte) int {
	n := -bytes.Count(data, []byte("\r\n"))
	for _, s := range [...]string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(s))
	}
	return n
}

// firstOdd returns the line of the first byte that no YAML file may hold: what
// yaml complains of when it names no line. It returns 1 if there is none.
func firstOdd(data []byte) int {
	line := 1
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		if c == '\n' {
			line++
		} else if c == utf8.RuneError && n == 1 || c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
			return line
		}
		i += n
	}
	return 1
}

// secret reports whether what stands after text may be a password, not to be shown.
func secret(text string) bool { return strings.Contains(strings.ToLower(text), "pass") }

// plain reports whatever says one thing in one place and means it in another. If n may
// be a password, it is not shown.
func (r *report) plain(n *yaml.Node, hide bool) {
	const why = ": write it out, so that each line says what holds there"
	show := func(mark, name string) string {
		if hide {
			return "what begins with " + mark
		}
		return mark + name
	}
	if n.Anchor != "" {
		r.say(n.Line, whole{}, "%.40s is an anchor, which is not read%s", show("&", n.Anchor), why)
	}
	if n.Kind == yaml.AliasNode {
		r.say(n.Line, whole{}, "%.40s is an alias, which is not read%s", show("*", n.Value), why)
		return
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.say(n.Line, whole{}, "%.40s is a tag, which is not read: write the plain value", show("!", strings.TrimPrefix(n.Tag, "!")))
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if isMerge(n.Content[i]) {
				r.say(n.Content[i].Line, whole{}, "<< is a merge key, which is not read%s", why)
			}
		}
	}
	for i, c := range n.Content {
		r.plain(c, hide || n.Kind == yaml.MappingNode && i%2 == 1 && secret(n.Content[i-1].Value))
	}
}

func isMerge(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!merge" }

// odd reports whether plain has complained of n, so that nobody else need.
func odd(n *yaml.Node) bool { return n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 }

// what names what n is, for messages.
func what(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// pair is an entry of a mapping.
type pair struct {
	name string
	line int // of the key
	node *yaml.Node
}

// pairs returns the entries of mapping n, without those that stand twice or
// whose key is no text, which it reports. Keys count as the text they are
// written as, so that 1: and true: are names like any other.
func (r *report) pairs(n *yaml.Node, at spot) []pair {
	list := make([]pair, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch first := seen[k.Value]; {
		case odd(k) || isMerge(k):
		case k.Kind != yaml.ScalarNode:
			r.say(k.Line, at, "a key is %s: write a name", what(k))
		case first > 0:
			r.say(k.Line, at, "%.40q stands twice, first on line %d: keep one of them", k.Value, first)
		default:
			seen[k.Value] = k.Line
			list = append(list, pair{k.Value, k.Line, n.Content[i+1]})
		}
	}
	return list
}
