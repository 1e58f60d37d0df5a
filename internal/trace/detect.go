package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// parser turns a line into a record. The record's class lies in the line or in
// the parser, and holds until the next call.
type parser interface {
	parse(line []byte) (record, error)
	format() string
}

// record is a line as it was read: nothing of it is allocated.
type record struct {
	at    int64 // ns since 1970, or on the scale of the CSV; never so large that a difference overflows
	class []byte
	names int // how many names the class has
	cost  int64
}

// size is about what the class takes when it is held: bytes and string headers.
func (r record) size() int { return len(r.class) + 16*r.names }

// detect tells the format by the first line that is not empty.
func detect(src *lines, o Options) (parser, error) {
	first, err := src.next()
	if err == io.EOF {
		return nil, fmt.Errorf("trace: %s: empty: expected %s", src.name, wantFormats)
	}
	if err != nil {
		return nil, err
	}
	if c, err := parseHeader(first); err == nil {
		return c, nil
	} else if looksLikeHeader(first) {
		return nil, src.wrap(err)
	}
	log := &accessLog{by: o.By, cost: o.Cost}
	if _, err := log.parse(first); err != nil && !looksLikeAccessLog(first) {
		return nil, src.wrap(fmt.Errorf("%q is of no known format: expected %s", clip(first), wantFormats))
	}
	src.again = true
	return log, nil
}

const wantFormats = `an access log (` + wantLine + `) or a CSV with the header time,class,cost; gzip is fine`

// looksLikeHeader is about lines that were meant to be a CSV header, so that the
// message is about the header and not about formats.
func looksLikeHeader(line []byte) bool {
	if bytes.IndexByte(line, '[') >= 0 {
		return false
	}
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ';' || r == '\t' || r == '|' })
	for _, f := range fields {
		f = bytes.ToLower(bytes.Trim(f, `" `))
		for _, name := range columns {
			if string(f) == name {
				return true
			}
		}
	}
	return false
}

// looksLikeAccessLog is about a first line that is broken further on: then the
// rest of the file is worth checking too.
func looksLikeAccessLog(line []byte) bool {
	_, fault := splitFront(line)
	return !errors.Is(fault, errFront) && bytes.Contains(line, []byte(`] "`))
}
