package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
)

// Trace runs the tree of f under a trace.
func Trace(ctx context.Context, f *config.File, path string, s trace.Summary, t trace.Options, o Options) (*result.Run, error) {
	r, err := newRun(f, o)
	if err != nil {
		return nil, err
	}
	return r.trace(ctx, path, s, t)
}

func (r *run) trace(ctx context.Context, path string, s trace.Summary, t trace.Options) (*result.Run, error) {
	err := r.replay(ctx, path, s, t, func(at htb.Time, l *leaf, cost int64) error {
		r.advance(at, nil)
		if _, err := r.ask(l, cost, true); err != nil && !errors.Is(err, htb.ErrCost) {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		r.advance(htb.Time(s.Span), nil)
	}
	return r.finish(ctx, nil)
}

// replay reads a trace to its end, or to that of ctx, and calls do for every request.
func (r *run) replay(ctx context.Context, path string, s trace.Summary, t trace.Options, do func(at htb.Time, l *leaf, cost int64) error) error {
	in, err := trace.Open(path, s, t)
	if err != nil {
		return err
	}
	defer in.Close()
	r.ends(s.Span)
	m := mapping{run: r, below: r.opts.Map, leaves: map[*string]*leaf{}}
	for n := 0; ; n++ {
		if n%4096 == 0 && !r.goOn(ctx, float64(in.Offset())/float64(max(1, s.Bytes))) {
			break
		}
		q, ok, err := in.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if l := m.leaf(q.Class); l != nil {
			if err := do(htb.Time(q.At), l, q.Cost); err != nil {
				return err
			}
		}
	}
	if err := m.err(path); err != nil {
		return err
	}
	if m.adopted != "" {
		r.notes = append(r.notes, m.adopted)
	}
	if late := LateNote(in); late != "" {
		r.notes = append(r.notes, late)
	}
	return nil
}

// LateNote says which lines of a trace came too late to be put in order, "" if none did.
func LateNote(in *trace.Reader) string {
	n, lines := in.Late()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d lines came later than --reorder allows and were taken as of when they came, the first of them lines %s", n, list(lines))
}

func list(lines []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(lines), " ", ", "), "[]")
}

// mapping turns the classes of a trace into leaves of the tree.
type mapping struct {
	run      *run
	below    []string // given by the user
	template []string // the class above the only template
	tried    bool
	adopted  string
	unknown  map[string]error
	first    []string

	leaves map[*string]*leaf // by where a class lies: the reader hands out the same one again
}

// mostLeaves is as many as the reader has classes to hand out again.
const mostLeaves = 4096

// leaf returns that of a class, nil if there is none.
func (m *mapping) leaf(class []string) *leaf {
	if l, ok := m.leaves[&class[0]]; ok {
		return l
	}
	names := m.names(class)
	if names == nil {
		return nil
	}
	if len(m.leaves) == mostLeaves {
		clear(m.leaves)
	}
	l := &leaf{names: names}
	m.leaves[&class[0]] = l
	return l
}

// names returns the leaf's path, nil if there is none.
func (m *mapping) names(class []string) []string {
	names := slices.Concat(m.below, class)
	err := m.run.lead(names)
	if err == nil {
		return names
	}
	if !errors.Is(err, htb.ErrUnknown) || m.below != nil {
		m.bad(class, err)
		return nil
	}
	if !m.tried {
		m.tried = true
		if paths := templates(m.run.root.spec, nil); len(paths) == 1 {
			m.template = paths[0]
		}
	}
	if m.template == nil {
		m.bad(class, err)
		return nil
	}
	names = slices.Concat(m.template, class)
	if err := m.run.lead(names); err != nil {
		m.bad(class, err)
		return nil
	}
	if m.adopted == "" {
		m.adopted = fmt.Sprintf("classes of the trace that the tree does not name are children of %q, its only template", htb.Path(m.template...))
	}
	return names
}

// templates lists the classes above a template whose children are leaves.
func templates(s *htb.Spec, path []string) (out [][]string) {
	for i := range s.Children {
		c := &s.Children[i]
		switch {
		case c.Name == htb.Template && len(c.Children) == 0:
			out = append(out, append([]string{}, path...))
		case c.Name != htb.Template:
			out = append(out, templates(c, append(path[:len(path):len(path)], c.Name))...)
		}
	}
	return out
}

const mostUnknown = 10

func (m *mapping) bad(class []string, err error) {
	path := htb.Path(class...)
	if m.unknown[path] != nil || len(m.first) > mostUnknown {
		return
	}
	if m.unknown == nil {
		m.unknown = map[string]error{}
	}
	m.unknown[path] = err
	m.first = append(m.first, path)
}

func (m *mapping) err(path string) error {
	if len(m.first) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("%s: classes that are no leaves of the tree; put all of the trace below one with --map PATH, or add them:", path)}
	for i, p := range m.first {
		if i == mostUnknown {
			lines = append(lines, "  and more")
			break
		}
		lines = append(lines, fmt.Sprintf("  %s", strings.TrimPrefix(m.unknown[p].Error(), "htb: ")))
	}
	return errors.New(strings.Join(lines, "\n"))
}
