package trace

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// LineError is one line that could not be read.
type LineError struct {
	File string
	Line int // from 1, counting every line of the file
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("trace: %s:%d: %v", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// LineErrors is every bad line of a trace: the first ten, and how many more
// there are.
type LineErrors struct {
	Lines []*LineError
	More  int64
}

const maxLineErrors = 10

// Error has a line for each.
func (e *LineErrors) Error() string {
	var b strings.Builder
	for i, line := range e.Lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line.Error())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n… and %d more", e.More)
	}
	return b.String()
}

func (e *LineErrors) Unwrap() []error {
	errs := make([]error, len(e.Lines))
	for i, line := range e.Lines {
		errs[i] = line
	}
	return errs
}

// add reports whether err is about one line, after which reading can go on.
func (e *LineErrors) add(err error) bool {
	line, ok := errors.AsType[*LineError](err)
	switch {
	case !ok:
		return false
	case len(e.Lines) < maxLineErrors:
		e.Lines = append(e.Lines, line)
	default:
		e.More++
	}
	return true
}

func (e *LineErrors) orNil() error {
	if len(e.Lines) == 0 {
		return nil
	}
	return e
}

// clip shortens text for a message: a line may be a megabyte.
func clip[T string | []byte](text T) string {
	const most = 80
	if len(text) <= most {
		return string(text)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return string(text[:cut]) + "…"
}
