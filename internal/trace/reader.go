package trace

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Reader yields the requests of a trace in the order of time. It is for one
// goroutine, except for Offset. Most callers want Next, until it says that there
// is none, and then Late.
type Reader struct {
	src   *lines
	parse parser
	names names
	hold  hold

	lines, want int64 // read so far; how many Scan counted
	origin      int64 // stamp of the first request
	begun       bool
	err         error

	late      int64
	lateLines []int
}

// maxLateLines is how many late lines are named.
const maxLateLines = 10

// Open starts a second pass over a file that Scan returned s for, with the same
// options. It reads as much of the file as Scan did, even if there is more now.
func Open(path string, s Summary, o Options) (*Reader, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if s.Format == "" {
		return nil, fmt.Errorf("trace: %s: the summary is empty: expected the one from Scan", path)
	}
	src, err := openLines(context.Background(), path, s.Bytes)
	if err != nil {
		return nil, err
	}
	r, err := newReader(src, s, o)
	if err != nil {
		src.close()
		return nil, err
	}
	return r, nil
}

func newReader(src *lines, s Summary, o Options) (*Reader, error) {
	p, err := detect(src, o)
	if err != nil {
		return nil, err
	}
	if p.format() != s.Format {
		return nil, fmt.Errorf("trace: %s: now of format %s, but %s when it was checked: it must not change while it is read", src.name, p.format(), s.Format)
	}
	return &Reader{
		src:   src,
		parse: p,
		want:  s.Lines,
		names: names{paths: s.Format == FormatCSV},
		hold:  hold{limits: o.limits(), spread: s.Format == FormatAccessLog},
	}, nil
}

// Next returns the next request, and false after the last. Errors are those of
// reading, or of a file that has changed since Scan; they stay.
func (r *Reader) Next() (Request, bool, error) {
	for r.err == nil {
		if l, at, ok := r.hold.take(); ok {
			return r.request(l, at), true, nil
		}
		if r.hold.ended {
			return Request{}, false, nil
		}
		rec, err := r.read()
		switch {
		case err == io.EOF:
			r.hold.ended = true
		case err != nil:
			r.err = err
		default:
			if l := (held{r.names.class(rec), rec.cost}); r.hold.add(rec.at, r.src.number, l) {
				r.late++
				if len(r.lateLines) < maxLateLines {
					r.lateLines = append(r.lateLines, r.src.number)
				}
				return r.request(l, r.hold.now), true, nil
			}
		}
	}
	return Request{}, false, r.err
}

// Late returns how many lines so far came too late to be put in their place, and
// the numbers of the first ten.
func (r *Reader) Late() (count int64, firstLines []int) {
	return r.late, slices.Clone(r.lateLines)
}

// Offset is how much of the file has been read, in bytes of the file itself: at
// the end Summary.Bytes. It may be called from any goroutine.
func (r *Reader) Offset() int64 { return r.src.raw.n.Load() }

// Close closes the file. Next is an error afterwards.
func (r *Reader) Close() error {
	r.err = fmt.Errorf("trace: %s: %w", r.src.name, os.ErrClosed)
	return r.src.close()
}

func (r *Reader) read() (record, error) {
	line, err := r.src.next()
	if err == io.EOF && r.lines != r.want {
		return record{}, fmt.Errorf("trace: %s: %d requests, but %d when it was checked: it must not change while it is read", r.src.name, r.lines, r.want)
	}
	if err != nil {
		return record{}, err
	}
	rec, err := r.parse.parse(line)
	if err != nil {
		return record{}, r.src.wrap(err)
	}
	r.lines++
	return rec, nil
}

func (r *Reader) request(l held, at int64) Request {
	if !r.begun {
		r.begun, r.origin = true, at
	}
	return Request{At: time.Duration(at - r.origin), Class: l.class.names, Cost: l.cost}
}
