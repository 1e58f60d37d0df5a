package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Request is one line of a trace.
type Request struct {
	At    time.Duration // since the first request of the trace
	Class []string      // names from the top of the tree down; safe to keep, shared between requests, not to be changed
	Cost  int64         // at least 1
}

// By says what part of an access log line names the class. A CSV names its
// classes itself. The zero value is ByClient.
type By int

const (
	ByClient By = iota // the host
	ByUser             // the user; "-" where nobody logged in
	ByPrefix           // the first segment of the URL's path: "images" of /images/x.png, "/" of /, "-" of a request that is none
)

// ParseBy reads client, user or prefix.
func ParseBy(s string) (By, error) {
	for by, name := range byNames {
		if s == name {
			return By(by), nil
		}
	}
	return 0, fmt.Errorf("trace: class by %q: expected client, user or prefix", clip(s))
}

func (b By) String() string {
	if b < 0 || int(b) >= len(byNames) {
		return fmt.Sprintf("By(%d)", int(b))
	}
	return byNames[b]
}

var byNames = []string{ByClient: "client", ByUser: "user", ByPrefix: "prefix"}

// CostBy says what a line of an access log costs. A CSV has a column for it. The
// zero value is CountRequests.
type CostBy int

const (
	CountRequests CostBy = iota // every line costs 1
	CountBytes                  // a line costs the size of its response, and 1 where that is 0 or "-"
)

// ParseCost reads 1 or bytes.
func ParseCost(s string) (CostBy, error) {
	for cost, name := range costNames {
		if s == name {
			return CostBy(cost), nil
		}
	}
	return 0, fmt.Errorf("trace: cost by %q: expected 1 or bytes", clip(s))
}

func (c CostBy) String() string {
	if c < 0 || int(c) >= len(costNames) {
		return fmt.Sprintf("CostBy(%d)", int(c))
	}
	return costNames[c]
}

var costNames = []string{CountRequests: "1", CountBytes: "bytes"}

// Options say how a trace is read. Scan and Open of one trace must be given the
// same ones.
type Options struct {
	By   By     // access logs only; default ByClient
	Cost CostBy // access logs only; default CountRequests

	// Reorder is how far behind the newest line another may come and still be
	// put in its place. Zero means that the file is taken to be in order.
	Reorder time.Duration

	// MaxHeld is how many lines are held at most to be put in order: beyond it
	// the oldest goes, whatever Reorder says. Zero means 262144, two minutes at
	// 2000 requests a second and 8 MB beside their classes. So that nobody fills the memory
	// with endless names either, it also stands for 256 bytes of class each.
	MaxHeld int
}

const defaultMaxHeld = 1 << 18

func (o Options) check() error {
	var errs []error
	if o.By < 0 || int(o.By) >= len(byNames) {
		errs = append(errs, fmt.Errorf("trace: options: %v: expected ByClient, ByUser or ByPrefix", o.By))
	}
	if o.Cost < 0 || int(o.Cost) >= len(costNames) {
		errs = append(errs, fmt.Errorf("trace: options: %v: expected CountRequests or CountBytes", o.Cost))
	}
	if o.Reorder < 0 {
		errs = append(errs, fmt.Errorf("trace: options: reorder %v: expected 0 or more", o.Reorder))
	}
	if o.MaxHeld < 0 {
		errs = append(errs, fmt.Errorf("trace: options: %d lines held at most: expected 1 or more, or 0 for %d", o.MaxHeld, defaultMaxHeld))
	}
	return errors.Join(errs...)
}

// The formats, as a Summary names them.
const (
	FormatAccessLog = "access log"
	FormatCSV       = "csv"
)

// Summary is what Scan found out about a file.
type Summary struct {
	Format string // FormatAccessLog or FormatCSV
	Lines  int64  // requests, so neither a header nor empty lines
	Bytes  int64  // size of the file when Scan began; nothing beyond it is read

	// First and Last are when the first and the last request come once they are
	// in order, in UTC. The seconds of a CSV are counted from 1970.
	First, Last time.Time

	// Span is the time that the requests take, and no At is beyond it: from First
	// to Last in a CSV; a second more in an access log, over which the lines
	// stamped Last are spread.
	Span time.Duration
}

// Scan reads the file once, keeps nothing of it, and returns what it is. When
// lines are bad the error is or wraps a *LineErrors with the first ten of them,
// and the Summary is zero.
func Scan(ctx context.Context, path string, o Options) (Summary, error) {
	if err := o.check(); err != nil {
		return Summary{}, err
	}
	src, err := openLines(ctx, path, -1)
	if err != nil {
		return Summary{}, err
	}
	defer src.close()
	return scan(src, o)
}

func scan(src *lines, o Options) (Summary, error) {
	var bad LineErrors
	p, err := detect(src, o)
	if err != nil {
		if bad.add(err) {
			return Summary{}, &bad
		}
		return Summary{}, err
	}
	var lines int64
	span := newSpan(o)
	for {
		line, err := src.next()
		if err == io.EOF {
			break
		}
		var rec record
		if err == nil {
			rec, err = p.parse(line)
			err = src.wrap(err)
		}
		if err != nil {
			if !bad.add(err) {
				return Summary{}, errors.Join(bad.orNil(), err)
			}
			continue
		}
		lines++
		span.add(rec)
	}
	if err := bad.orNil(); err != nil {
		return Summary{}, err
	}
	if lines == 0 {
		return Summary{}, fmt.Errorf("trace: %s: no requests below the header", src.name)
	}
	s := Summary{
		Format: p.format(),
		Lines:  lines,
		Bytes:  src.size,
		First:  time.Unix(0, span.first).UTC(),
		Last:   time.Unix(0, span.newest).UTC(),
		Span:   time.Duration(span.newest - span.first),
	}
	if p.format() == FormatAccessLog {
		s.Span += time.Second
	}
	return s, nil
}

// span finds the time of the request that a Reader will yield first, without
// holding any: the smallest of those read until the hold first lets one go.
type span struct {
	limits
	first, newest int64
	held, bytes   int
	fixed         bool // the first request is out, and with it first is settled
}

func newSpan(o Options) *span {
	return &span{limits: o.limits()}
}

func (s *span) add(rec record) {
	if s.held == 0 {
		s.first, s.newest = rec.at, rec.at
	}
	s.newest = max(s.newest, rec.at)
	if s.fixed {
		return
	}
	s.first = min(s.first, rec.at)
	s.held++
	s.bytes += rec.size()
	s.fixed = s.full(s.held, s.bytes) || s.newest-s.first > s.reorder
}
