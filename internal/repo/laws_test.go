package repo

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// module is the path of this module, as imports begin with it.
const module = "github.com/go-sluice/sluice"

// layers lists, for each package of the core, what else of this module it may
// import: config -> htb -> queue -> algo, and what tells the machine how to get at memory. Packages that are not named here stand
// above all of these and are free, but that nothing imports a command.
var layers = map[string][]string{
	"algo":   nil,
	"queue":  {"algo", "internal/prefetch"},
	"htb":    {"algo", "queue", "internal/prefetch", "internal/hugepage"},
	"config": {"algo", "queue", "htb"},
}

// fences lists the modules that only some packages may import, each with the
// reason that a complaint gives.
var fences = []struct {
	path, why string
	inside    func(dir string) bool
}{
	{"gopkg.in/yaml.v3", "only config reads YAML",
		func(dir string) bool { return dir == "config" }},
	{"github.com/redis/go-redis", "only gateways, the Redis packages and commands talk to Redis",
		func(dir string) bool { return strings.Contains(dir, "redis") || dir == "gateway" || within(dir, "cmd") }},
}

// clockless are the packages that take time as an argument, and clock what they
// may not use therefore.
var (
	clockless = []string{"algo", "queue", "htb"}
	clock     = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
)

// clockExempt names files of the core that may use the clock all the same, each
// with its reason.
var clockExempt = map[string]string{}

// documented are the packages whose exported identifiers all have a comment: those
// that others import.
var documented = []string{".", "algo", "algo/redisgcra", "queue", "htb", "config"}

// A law returns a complaint for everything in files that breaks it.
type law func(files []file) []string

// packageDocs: every package has a doc comment, with no blank line between it and
// the package clause, since go doc shows nothing otherwise. That of a package other
// than a command begins "Package name".
func packageDocs(files []file) []string {
	var dirs, complaints []string
	first := map[string]file{}
	doc := map[string]string{}
	for _, f := range files {
		if f.test() {
			continue
		}
		if _, ok := first[f.dir()]; !ok {
			first[f.dir()] = f
			dirs = append(dirs, f.dir())
		}
		doc[f.dir()] += f.syntax.Doc.Text()
	}
	for _, dir := range dirs {
		f := first[dir]
		name := f.syntax.Name.Name
		switch text := doc[dir]; {
		case text == "":
			complaints = append(complaints, f.at(f.syntax.Package, "package %s has no doc comment right above its package clause", name))
		case name != "main" && !strings.HasPrefix(text, "Package "+name+" "):
			complaints = append(complaints, f.at(f.syntax.Package, "the doc comment does not begin with \"Package %s\"", name))
		}
	}
	return complaints
}

// importDirection: imports run one way, as layers says, and third-party modules stay
// inside their fences. Tests may look upwards, to compare with a yardstick, but not
// over a fence.
func importDirection(files []file) []string {
	var complaints []string
	for _, f := range files {
		for _, spec := range f.syntax.Imports {
			imported := importPath(spec)
			for _, fence := range fences {
				if within(imported, fence.path) && !fence.inside(f.dir()) {
					complaints = append(complaints, f.at(spec.Pos(), "imports %s: %s", imported, fence.why))
				}
			}
			if f.test() || !within(imported, module) {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			if target == "" {
				target = "."
			}
			allowed, isLayer := layers[f.dir()]
			switch {
			case within(target, "cmd") && !within(f.dir(), "cmd"):
				complaints = append(complaints, f.at(spec.Pos(), "imports the command %s", target))
			case isLayer && !slices.Contains(allowed, target):
				complaints = append(complaints, f.at(spec.Pos(), "%s imports %s: only %v is below it", f.dir(), target, allowed))
			}
		}
	}
	return complaints
}

// noClock: the core reads no clock, starts no timer and draws no random numbers.
func noClock(files []file) []string {
	var complaints []string
	for _, f := range files {
		if f.test() || !slices.Contains(clockless, f.dir()) || clockExempt[f.path] != "" {
			continue
		}
		timeName := ""
		for _, spec := range f.syntax.Imports {
			switch p := importPath(spec); {
			case within(p, "math/rand"):
				complaints = append(complaints, f.at(spec.Pos(), "imports %s: the core draws no random numbers", p))
			case p == "time" && spec.Name == nil:
				timeName = "time"
			case p == "time" && spec.Name.Name == ".":
				complaints = append(complaints, f.at(spec.Pos(), "imports time with a dot, which hides its use"))
			case p == "time":
				timeName = spec.Name.Name
			}
		}
		for n := range ast.Preorder(f.syntax) {
			use, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if of, ok := use.X.(*ast.Ident); ok && of.Name == timeName && slices.Contains(clock, use.Sel.Name) {
				complaints = append(complaints, f.at(use.Pos(), "uses time.%s: the core takes time as an argument", use.Sel.Name))
			}
		}
	}
	return complaints
}

// exportedDocs: every exported identifier of the packages that others import has a
// doc comment: types, functions, methods, those of interfaces too, constants and
// variables. A comment above a group of constants or variables counts for all of
// them, as one at the end of the line does. Fields are free, since for many a comment
// could only repeat the name.
func exportedDocs(files []file) []string {
	var complaints []string
	for _, f := range files {
		if f.test() || !slices.Contains(documented, f.dir()) {
			continue
		}
		check := func(kind string, names []*ast.Ident, comments ...*ast.CommentGroup) {
			for _, name := range names {
				if name.IsExported() && !slices.ContainsFunc(comments, hasText) {
					complaints = append(complaints, f.at(name.Pos(), "%s %s has no doc comment", kind, name.Name))
				}
			}
		}
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if ast.IsExported(receiver(d)) {
					check("func", []*ast.Ident{d.Name}, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.ValueSpec:
						check(d.Tok.String(), s.Names, d.Doc, s.Doc, s.Comment)
					case *ast.TypeSpec:
						doc := []*ast.CommentGroup{s.Doc}
						if !d.Lparen.IsValid() {
							doc = append(doc, d.Doc)
						}
						check("type", []*ast.Ident{s.Name}, doc...)
						if t, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
							for _, method := range t.Methods.List {
								check("method", method.Names, method.Doc, method.Comment)
							}
						}
					}
				}
			}
		}
	}
	return complaints
}

// noLeftovers: what is still to be done is an issue, not a mark in the code.
func noLeftovers(files []file) []string {
	var complaints []string
	mark := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	for _, f := range files {
		if f.test() {
			continue
		}
		for i, line := range strings.Split(f.source, "\n") {
			if found := mark.FindString(line); found != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %s is left in the code", f.path, i+1, found))
			}
		}
	}
	return complaints
}

// A file is one parsed Go file.
type file struct {
	path   string // from the top of the module, with slashes
	source string
	set    *token.FileSet
	syntax *ast.File
}

func (f file) dir() string { return path.Dir(f.path) }
func (f file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }

func (f file) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", f.path, f.set.Position(pos).Line) + fmt.Sprintf(format, args...)
}

// within tells whether p is parent or below it, by whole path elements.
func within(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "\"`") }

func hasText(c *ast.CommentGroup) bool { return c.Text() != "" }

// receiver is the name of the type that d is a method of, without its parameters,
// and the name of d itself where it is no method.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	for n := range ast.Preorder(d.Recv.List[0].Type) {
		if id, ok := n.(*ast.Ident); ok {
			return id.Name
		}
	}
	return ""
}
