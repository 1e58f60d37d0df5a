package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sluice/sluice/htb"
)

// Error is one mistake in a file, or one warning.
type Error struct {
	File string
	Line int    // from 1
	Path string // the class ("free/alice", "global") or flow; "" for the file as a whole
	Msg  string // what is wrong and what to write instead
}

// Error writes e on one line: file, line, path, message.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Path, e.Msg)
}

// Errors is everything wrong with a file, by line. The functions of this package
// that read files return no other error but those of reading from disk.
type Errors []*Error

// Error lists the mistakes, a line each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes, for [errors.As].
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i]
	}
	return list
}

// maxErrors is how many mistakes of a file are told. A file with more is of
// another kind, or made by a program with one mistake in it.
const maxErrors = 1000

// report collects the mistakes of one file.
type report struct {
	file string
	list []finding
	more int // found beyond maxErrors
}

// finding is an Error whose path is not written out yet: of a million findings
// with long paths only maxErrors ever need theirs.
type finding struct {
	line int
	at   spot
	msg  string
}

// spot is what a finding is about.
type spot interface{ String() string }

// part is a block within a spot: its name goes into the message, so that a path
// is always one of a class or a flow.
type part struct {
	spot
	inside string
}

// whole is the spot of what concerns no single class or flow.
type whole struct{}

func (whole) String() string { return "" }

// classPath is a class, root first. "*" is always a template here: a file cannot
// speak of a single class with that name.
type classPath []string

func (p classPath) String() string {
	if len(p) == 1 && p[0] == "" {
		return `""` // a name that is wrong, but not the file as a whole
	}
	return htb.Mistake{Path: p}.Where()
}

func (r *report) say(line int, at spot, format string, args ...any) {
	if len(r.list) >= maxErrors {
		r.more++
		return
	}
	if p, ok := at.(part); ok {
		at, format = p.spot, p.inside+": "+format
	}
	r.list = append(r.list, finding{line, at, fmt.Sprintf(format, args...)})
}

// errors returns the findings by line: of more than maxErrors those found first.
func (r *report) errors() Errors {
	slices.SortStableFunc(r.list, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	list := make(Errors, 0, len(r.list))
	for _, f := range r.list {
		list = append(list, &Error{r.file, max(f.line, 1), f.at.String(), f.msg})
	}
	if r.more > 0 {
		last := list[len(list)-1].Line
		list = append(list, &Error{r.file, last, "", fmt.Sprintf("and %d more", r.more)})
	}
	return list
}

// err is errors as an error, nil when there are none.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	return r.errors()
}
