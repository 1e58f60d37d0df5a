package trace

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// maxLine is the longest line taken, without its line end.
const maxLine = 1 << 20

// lines reads a file, compressed or not, line by line.
type lines struct {
	name   string
	size   int64
	raw    *rawReader
	buf    *bufio.Reader
	file   io.Closer
	number int    // of the line last returned, from 1
	line   []byte // the line last returned
	again  bool   // return it once more
}

// openLines opens the first size bytes of a file, all that it has when size is
// negative. A log that is still being written thus reads the same both times.
func openLines(ctx context.Context, path string, size int64) (*lines, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("trace: %w", err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("trace: %s: not a regular file: a trace is read twice, so write it to a file first", path)
	case info.Size() < size:
		err = fmt.Errorf("trace: %s: %d bytes, but %d when it was checked: it must not change while it is read", path, info.Size(), size)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	if size < 0 {
		size = info.Size()
	}
	l, err := newLines(ctx, path, io.LimitReader(file, size))
	if err != nil {
		file.Close()
		return nil, err
	}
	l.file, l.size = file, size
	return l, nil
}

func newLines(ctx context.Context, name string, in io.Reader) (*lines, error) {
	l := &lines{name: name, raw: &rawReader{ctx: ctx, in: in}}
	head := bufio.NewReaderSize(l.raw, 64<<10)
	magic, err := head.Peek(2)
	if err != nil && err != io.EOF {
		return nil, l.fail(err)
	}
	var text io.Reader = head
	if string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, l.fail(err)
		}
		text = z
	}
	// Room for one line of the greatest length with its line end, so that a full
	// buffer means a line too long.
	l.buf = bufio.NewReaderSize(text, maxLine+len("\r\n"))
	mark, err := l.buf.Peek(3)
	if err != nil && err != io.EOF {
		return nil, l.fail(err)
	}
	if string(mark) == "\ufeff" {
		_, err = l.buf.Discard(len(mark))
		return l, err
	}
	return l, nil
}

// next returns the next line that is not empty, without its line end, valid
// until the call after; io.EOF at the end; a *LineError for a line too long,
// after which reading can go on.
func (l *lines) next() ([]byte, error) {
	if l.again {
		l.again = false
		return l.line, nil
	}
	for {
		raw, err := l.buf.ReadSlice('\n')
		if err != nil {
			switch {
			case err == io.EOF && len(raw) == 0:
				return nil, io.EOF
			case err == bufio.ErrBufferFull:
				l.number++
				return nil, l.skip(clip(raw))
			case err != io.EOF:
				return nil, l.fail(err)
			}
		}
		l.number++
		line := raw
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) == 0 {
			continue
		}
		if len(line) > maxLine {
			return nil, l.tooLong(clip(line))
		}
		l.line = line
		return line, nil
	}
}

// skip reads to the end of a line that did not fit.
func (l *lines) skip(begin string) error {
	for {
		_, err := l.buf.ReadSlice('\n')
		switch err {
		case nil, io.EOF:
			return l.tooLong(begin)
		case bufio.ErrBufferFull:
		default:
			return l.fail(err)
		}
	}
}

func (l *lines) tooLong(begin string) error {
	return l.wrap(fmt.Errorf("%q: expected lines of at most 1 MiB", begin))
}

// wrap adds where the line last returned stands.
func (l *lines) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &LineError{File: l.name, Line: l.number, Err: err}
}

// fail is for what ends the reading.
func (l *lines) fail(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		// Only gzip says so: it knows how much should have come.
		err = fmt.Errorf("gzip data cut short: %w", err)
	}
	return fmt.Errorf("trace: %s: after line %d: %w", l.name, l.number, err)
}

func (l *lines) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// rawReader counts what is read of the file itself, which gzip hides, and ends
// the reading when the context ends.
type rawReader struct {
	ctx context.Context
	in  io.Reader
	n   atomic.Int64 // atomic, so that a progress bar may look from elsewhere
}

func (r *rawReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.in.Read(b)
	r.n.Add(int64(n))
	return n, err
}
