package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/result"
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
	few  bool // so few leaves that each has a handle

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

// fewest returns how many children the template with the fewest may have.
func fewest(s *htb.Spec) int {
	most := math.MaxInt
	for i := range s.Children {
		c := &s.Children[i]
		if most = min(most, fewest(c)); c.Name == htb.Template {
			most = min(most, c.Max)
		}
	}
	return most
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
	// Names keep a template tidier than handles do. That makes no difference until it is
	// full, and to it none of these will ever be.
	r.few = named(l) <= min(mostSeen, fewest(r.root.spec))
	flows, backlogged := startFlows(flowsOf(l, r.opts.Seed))
	for n := 0; len(flows) > 0; n++ {
		x := flows[0]
		if n%4096 == 0 && !r.goOn(ctx, float64(x.at)/float64(l.Duration)) {
			break
		}
		r.advance(htb.Time(x.at), backlogged)
		d, err := r.ask(x.leaf, x.cost, x.Arrivals != config.Backlogged)
		if err != nil && !errors.Is(err, htb.ErrCost) {
			return nil, &config.Error{File: l.Name, Line: x.Line, Msg: err.Error()}
		}
		flows.next(d, err, r.opts.Step)
	}
	if ctx.Err() == nil {
		r.advance(htb.Time(l.Duration), backlogged)
	}
	return r.finish(ctx, backlogged)
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

// leaf is one that requests name, and what is known of it: so that none is looked up
// by its name for every request.
type leaf struct {
	names  []string
	client int       // which of its flow's
	node   *node     // as it was found last; nil if it is not its own
	handle *htb.Leaf // nil where there are many
}

// find returns the node of a leaf.
func (r *run) find(l *leaf) *node {
	most := watched(r.opts.Top)
	if n := l.node; n != nil && !n.gone {
		if n.own {
			return n
		}
		if n.parent.own { // else one above may be due for a row of its own
			return n.parent.again(n, most)
		}
	}
	n := r.root
	for _, name := range l.names {
		n = n.child(name, most)
	}
	if l.node = n; n.name == overflow { // maybe there is room for its own the next time
		l.node = nil
	}
	return n
}

// ask lets the tree decide, and books the answer.
func (r *run) ask(l *leaf, cost int64, offer bool) (htb.Decision, error) {
	if l.handle == nil && r.few {
		l.handle, _ = r.tree.Leaf(l.names...) // else Allow says why not
	}
	var d htb.Decision
	var err error
	if l.handle != nil {
		d, err = l.handle.Allow(r.now, cost)
	} else {
		d, err = r.tree.Allow(r.now, cost, l.names...)
	}
	if err != nil && !errors.Is(err, htb.ErrCost) {
		return d, err
	}
	r.book(l, cost, offer, d, err)
	return d, err
}

// book books an answer, or that there can never be one, and returns the leaf's node.
func (r *run) book(l *leaf, cost int64, offer bool, d htb.Decision, err error) *node {
	n := r.find(l)
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
		n := r.find(x.leaf)
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
