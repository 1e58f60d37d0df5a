package config

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sluice/sluice/htb"
)

// maxName is the longest text of a tree file, in bytes.
const maxName = htb.MaxName

// maxClasses is how many classes a file may list.
const maxClasses = 1_000_000

// File is what a tree file says. It is not changed by this package once made,
// and may be shared.
type File struct {
	Name      string   // the file's, as given
	Tree      string   // names Redis keys and metrics
	Unit      string   // what costs count; "requests" when the file does not say
	Semantics string   // "strict" or "kernel"
	Redis     *Redis   // nil without redis:
	Root      htb.Spec // the tree, as written: defaults are not filled in
	Settings  *Class   // what the file says of classes beside their Spec
	Warnings  []*Error // what works, but hardly as meant; by line

	// Paths are the paths of the classes of a .tc file, which there go by their id alone;
	// nil for other files.
	Paths map[string][]string
}

// Class is what a tree file says of a class that is not in its htb.Spec. Classes
// form a tree parallel to that of the Specs: Children[i] goes with Spec.Children[i].
type Class struct {
	Line    int           // where the class stands
	Limit   int           // items its queue may hold; 0 when the file does not say
	MaxWait time.Duration // how long one may be queued; 0 when the file does not say
	Pool    int           // of the root: items released and not yet done; 0 for no bound

	Children []*Class

	name   string
	marks  []mark
	broken bool           // could not be read as meant, which was reported
	index  map[string]int // of Children by name, where they are many
}

// mark is where a key of a class stands.
type mark struct {
	name string
	line int
	bad  bool // its value was reported
}

// ParseFile reads the tree file at path; see [Parse].
func ParseFile(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a tree file; name is what its mistakes call it. The error is
// [Errors], everything that is wrong with the file. A File that is returned
// without one holds a Root for which htb.Spec.Check finds nothing but warnings.
//
// A name that ends in .tc is that of a tc batch file, see [ParseTC].
func Parse(name string, data []byte) (*File, error) { return parse(name, data, false) }

// ParseShape is [Parse] for a tree that is to shape: its inner bursts need not cover.
func ParseShape(name string, data []byte) (*File, error) { return parse(name, data, true) }

func parse(name string, data []byte, shape bool) (*File, error) {
	if strings.HasSuffix(name, ".tc") {
		f, paths, err := ParseTC(name, data)
		if f != nil {
			f.Paths = paths
		}
		return f, err
	}
	r := &report{file: name}
	n, ok := r.document(data)
	if !ok {
		return nil, r.err()
	}
	m, ok := r.mapping(n, whole{}, n.Line, treeTop, "tree: api and, below it, global: {rate: 1000/s}")
	if !ok {
		return nil, r.err()
	}
	f := &File{Name: name, Tree: m.text("tree"), Unit: m.text("unit"), Semantics: m.choice("semantics"), Redis: m.redis()}
	switch {
	case m.failed("unit"):
		f.Unit = Bytes // the unit that admits every form of rate, so that one mistake stays one
	case f.Unit == "":
		f.Unit = "requests"
	}
	if g := m.get("global"); g != nil {
		t := tree{report: r, unit: f.Unit, redis: m.has("redis")}
		f.Root, f.Settings = t.class(g.node, nil, g.line)
		t.check(f, shape)
		t.notes(f.Root, f.Settings, nil)
		f.Warnings = t.warnings.errors()
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Place turns what htb says of a class into an Error on the line of the key it
// speaks of, or of the class. m should be about f.Root, or a class of it.
func (f *File) Place(m htb.Mistake) *Error {
	line, _ := f.Settings.place(m)
	return &Error{f.Name, line, classPath(m.Path).String(), m.Text}
}

// place returns the line for m; told is true when what it speaks of could not be
// read, so that nothing that follows from that needs saying.
func (c *Class) place(m htb.Mistake) (line int, told bool) {
	for _, name := range m.Path {
		child := c.child(name)
		if child == nil {
			break
		}
		c = child
	}
	for _, k := range c.marks {
		if k.name == m.Key {
			return k.line, c.broken || k.bad
		}
	}
	return c.Line, c.broken
}

// line returns where the key of a name stands, or the class.
func (c *Class) line(name string) int {
	for _, k := range c.marks {
		if k.name == name {
			return k.line
		}
	}
	return c.Line
}

func (c *Class) child(name string) *Class {
	if i, ok := c.index[name]; ok {
		return c.Children[i]
	}
	for _, child := range c.Children[:min(len(c.Children), fewChildren)] {
		if child.name == name {
			return child
		}
	}
	return nil
}

// fewChildren are found as fast without an index.
const fewChildren = 8
