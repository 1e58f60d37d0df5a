package sim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
)

// Options of a run.
type Options struct {
	// Step is the length of an entry of a series. It must be positive.
	Step time.Duration
	// Seed picks the random arrivals, clients and costs.
	Seed uint64
	// Top is how many children of a template have rows of their own.
	Top int
	// Map, if not empty, is the class below which every class of a trace lies.
	Map []string
	// Progress, if not nil, is called now and then with how much is done, 0 to 1.
	Progress func(done float64)
}

// watched is how many children of a template have a row while the run lasts, for
// top of them in the result: more of them find the largest more surely.
func watched(top int) int {
	if top == 0 {
		return 0
	}
	return max(10*top, 100)
}

// run is a tree on its way through a load or a trace.
type run struct {
	file *config.File
	tree *htb.Tree
	lead func(names []string) error // says why names do not lead to a leaf
	root *node
	opts Options

	now      htb.Time
	step     int  // being filled
	last     int  // step, which also has what comes at the very end
	booked   bool // something, in this step
	division division

	impossible map[*htb.Spec]*impossible // costs that can never pass, by class or template
	order      []*impossible
	notes      []string
}

// impossible tells of costs of a class, or of the children of a template, that
// never pass.
type impossible struct {
	err         error
	count, most int64
}

func (i *impossible) String() string {
	requests := "1 request costs"
	if i.count > 1 {
		requests = fmt.Sprintf("%d requests cost", i.count)
	}
	why := strings.TrimSuffix(strings.TrimPrefix(i.err.Error(), "htb: "), ": "+htb.ErrCost.Error())
	return fmt.Sprintf("%s more than can ever pass, up to %d, and count as rejected; the first: %s (a burst and cburst of %d there would admit all)", requests, i.most, why, i.most)
}

func newRun(f *config.File, o Options) (*run, error) {
	tree, err := htb.New(f.Root)
	if err != nil {
		return nil, err
	}
	spec := f.Root.Resolved()
	return &run{
		file: f, tree: tree, lead: func(names []string) error { _, err := tree.Leaf(names...); return err }, root: newNode(&spec, nil, ""), opts: o,
		division:   division{length: o.Step.Seconds()},
		impossible: map[*htb.Spec]*impossible{},
	}, nil
}

// Load runs the tree of f under a load. When ctx ends it returns what was measured
// until then, with the error of ctx.
func Load(ctx context.Context, f *config.File, l *config.LoadFile, o Options) (*result.Run, error) {
	r, err := newRun(f, o)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, l)
}

func (r *run) load(ctx context.Context, l *config.LoadFile) (*result.Run, error) {
	if err := r.check(l); err != nil {
		return nil, err
	}
	r.ends(l.Duration)
	var flows flowHeap
	for _, x := range flowsOf(l, r.opts.Seed) {
		if !x.over() {
			flows = append(flows, x)
		}
	}
	heap.Init(&flows)
	var backlogged []*flow
	for _, x := range flows {
		if x.Arrivals == config.Backlogged {
			backlogged = append(backlogged, x)
		}
	}
	for n := 0; len(flows) > 0; n++ {
		x := flows[0]
		if n%4096 == 0 && !r.goOn(ctx, float64(x.at)/float64(l.Duration)) {
			break
		}
		r.advance(htb.Time(x.at), backlogged)
		d, err := r.ask(x.names, x.cost, x.Arrivals != config.Backlogged)
		if err != nil && !errors.Is(err, htb.ErrCost) {
			return nil, &config.Error{File: l.Name, Line: x.Line, Msg: err.Error()}
		}
		if x.next(d, err, r.opts.Step); x.over() {
			heap.Pop(&flows)
		} else {
			heap.Fix(&flows, 0)
		}
	}
	if ctx.Err() == nil {
		r.advance(htb.Time(l.Duration), backlogged)
	}
	return r.finish(ctx, backlogged)
}

// Trace runs the tree of f under a trace.
func Trace(ctx context.Context, f *config.File, path string, s trace.Summary, t trace.Options, o Options) (*result.Run, error) {
	r, err := newRun(f, o)
	if err != nil {
		return nil, err
	}
	return r.trace(ctx, path, s, t)
}

func (r *run) trace(ctx context.Context, path string, s trace.Summary, t trace.Options) (*result.Run, error) {
	in, err := trace.Open(path, s, t)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r.ends(s.Span)
	m := mapping{run: r, below: r.opts.Map}
	for n := 0; ; n++ {
		if n%4096 == 0 && !r.goOn(ctx, float64(in.Offset())/float64(max(1, s.Bytes))) {
			break
		}
		q, ok, err := in.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		names := m.names(q.Class)
		if names == nil {
			continue
		}
		r.advance(htb.Time(q.At), nil)
		if _, err := r.ask(names, q.Cost, true); err != nil && !errors.Is(err, htb.ErrCost) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := m.err(path); err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		r.advance(htb.Time(s.Span), nil)
	}
	r.noteTrace(&m, in)
	return r.finish(ctx, nil)
}

// noteTrace says what is to be said of a trace.
func (r *run) noteTrace(m *mapping, in *trace.Reader) {
	if m.adopted != "" {
		r.notes = append(r.notes, m.adopted)
	}
	if late := LateNote(in); late != "" {
		r.notes = append(r.notes, late)
	}
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

func (r *run) goOn(ctx context.Context, done float64) bool {
	if r.opts.Progress != nil {
		r.opts.Progress(done)
	}
	return ctx.Err() == nil
}

// check finds the flows whose class is no leaf of the tree.
func (r *run) check(l *config.LoadFile) error {
	var errs config.Errors
	for i, f := range l.Flows {
		if err := r.lead(f.Class); err != nil {
			where := htb.Mistake{Path: f.Class}.Where()
			errs = append(errs, &config.Error{File: l.Name, Line: f.Line, Path: fmt.Sprintf("flow %d %q", i+1, where),
				Msg: strings.TrimPrefix(err.Error(), "htb: ") + ": name a leaf of the tree"})
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// ends says how long the run lasts.
func (r *run) ends(after time.Duration) {
	r.last = int(max(0, after-1) / r.opts.Step)
}

// find returns the node of a leaf.
func (r *run) find(names []string) *node {
	n := r.root
	for _, name := range names {
		n = n.child(name, watched(r.opts.Top))
	}
	return n
}

// ask lets the tree decide, and books the answer.
func (r *run) ask(names []string, cost int64, offer bool) (htb.Decision, error) {
	d, err := r.tree.Allow(r.now, cost, names...)
	if err != nil && !errors.Is(err, htb.ErrCost) {
		return d, err
	}
	r.book(names, cost, offer, d, err)
	return d, err
}

// book books an answer, or that there can never be one, and returns the leaf's node.
func (r *run) book(names []string, cost int64, offer bool, d htb.Decision, err error) *node {
	n := r.find(names)
	n.count(r.step, cost, d.Allowed, d.Up)
	r.booked = true
	switch {
	case err != nil:
		x := r.impossible[n.spec]
		if x == nil {
			x = &impossible{err: err}
			r.impossible[n.spec] = x
			r.order = append(r.order, x)
		}
		x.count++
		x.most = max(x.most, cost)
	case offer:
		n.offer(r.step, float64(cost))
	}
	return n
}

// advance goes on to a later time, closing the steps that end on the way.
func (r *run) advance(to htb.Time, backlogged []*flow) {
	for r.step < r.last {
		end := htb.Time(r.step+1) * htb.Time(r.opts.Step)
		if to < end {
			break
		}
		r.close(end, backlogged)
	}
	r.now = max(r.now, to)
}

// close ends a step at the given time.
func (r *run) close(end htb.Time, backlogged []*flow) {
	begin := htb.Time(r.step) * htb.Time(r.opts.Step)
	for _, x := range backlogged {
		from, to := max(begin, htb.Time(x.From)), min(end, htb.Time(x.To))
		if from >= to {
			continue
		}
		n := r.find(x.names)
		if from == begin && to == end {
			n.offer(r.step, everything)
		} else { // all it could have in that time, and have saved
			n.offer(r.step, n.spec.Ceil.PerSecond()*time.Duration(to-from).Seconds()+n.ceil)
		}
	}
	r.division.step, r.division.seconds = r.step, time.Duration(end-begin).Seconds()
	r.division.divide(r.root)
	r.now = max(r.now, end)
	r.step++
	r.booked = false
}

// finish closes the last step and makes the result.
func (r *run) finish(ctx context.Context, backlogged []*flow) (*result.Run, error) {
	if begin := htb.Time(r.step) * htb.Time(r.opts.Step); r.now > begin || r.booked {
		r.close(r.now, backlogged)
	}
	out := &result.Run{
		Tree: r.file.Tree, Mode: "police", Unit: r.file.Unit,
		Seconds: time.Duration(r.now).Seconds(), Step: r.opts.Step.Seconds(),
		Rows:  r.root.rows(nil, nil, r.step, r.opts.Top),
		Notes: r.notes,
	}
	for id, path := range r.file.Paths { // each renames a row of its own
		if i := slices.IndexFunc(out.Rows, func(row result.Row) bool { return row.Depth > 0 && row.Path == htb.Path(path...) }); i >= 0 {
			out.Rows[i].Path = id
		}
	}
	for _, x := range r.order {
		out.Notes = append(out.Notes, x.String())
	}
	return out, ctx.Err()
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
	buf      []string
}

// names returns the leaf's path, nil if there is none.
func (m *mapping) names(class []string) []string {
	m.buf = append(append(m.buf[:0], m.below...), class...)
	err := m.run.lead(m.buf)
	if err == nil {
		return m.buf
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
	m.buf = append(append(m.buf[:0], m.template...), class...)
	if err := m.run.lead(m.buf); err != nil {
		m.bad(class, err)
		return nil
	}
	if m.adopted == "" {
		m.adopted = fmt.Sprintf("classes of the trace that the tree does not name are children of %q, its only template", htb.Path(m.template...))
	}
	return m.buf
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
