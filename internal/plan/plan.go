// Package plan works out, from recorded traffic, which limits would have refused a given
// share of each class's requests, and writes them as a tree.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

// Options of a plan.
type Options struct {
	// Refuse is the share of a class's requests that the tree's limits may refuse.
	Refuse float64
	// Growth is how many times as fast as recorded the traffic is taken to come to the
	// tree. A limit that is fitted to a record refuses more of what comes after it, for it
	// was the record's own peaks that it just let through; and traffic grows.
	Growth float64
	// Saved is how long a class saves up: its burst is what the rate brings in that time, at
	// least its largest request and 2.
	Saved time.Duration
	// Few is how many requests a class must have for limits of its own, where it is not the
	// only one with fewer beside it: those share a template.
	Few int
}

// Shares are those that a plan says of every class what would have refused them.
var Shares = []float64{0.001, 0.01, 0.05}

// request is what is kept of one.
type request struct {
	at   algo.Time
	cost int64
}

// Recorder takes the traffic in. The zero Recorder is not usable; make one with
// [NewRecorder].
type Recorder struct {
	classes map[string]*recorded
	order   []*recorded
	count   int64
}

type recorded struct {
	path     []string
	requests []request
}

// NewRecorder returns an empty one.
func NewRecorder() *Recorder { return &Recorder{classes: map[string]*recorded{}} }

// Add takes a request in; at never decreases. It keeps 16 bytes of it.
func (r *Recorder) Add(at time.Duration, class []string, cost int64) {
	key := htb.Path(class...)
	c := r.classes[key]
	if c == nil {
		c = &recorded{path: slices.Clone(class)}
		r.classes[key] = c
		r.order = append(r.order, c)
	}
	c.requests = append(c.requests, request{algo.Time(at), cost})
	r.count++
}

// Plan is limits for every class.
type Plan struct {
	Options
	Seconds  float64
	Requests int64
	Classes  []Class // by path, the template of a class after its named children
	Notes    []string
}

// Class is a leaf of the tree, or a template.
type Class struct {
	Path     []string // the last name of a template is htb.Template
	Names    int      // how many the template stands for; 0 for a leaf
	Requests int64
	Units    int64 // at most 2^63-1
	Largest  int64 // cost of a request
	Fits     []Fit // one for each of Shares, of the traffic as recorded

	Planned  Fit        // what the tree has, fitted to traffic that has grown
	Recorded float64    // share of the requests that it refuses as recorded
	Together algo.Limit // of a template: what lets all its children through as one
	Crowded  bool       // even the fastest limit would not let them through

	groups [][]request
}

// Fit is a limit that refuses no more than was asked, found by bisection over rates: it
// may not be the slowest, as a slower one refuses more on the whole but not always. Where
// no rate refuses so little it is the fastest, and Over.
type Fit struct {
	Asked   float64
	Limit   algo.Limit
	Refused float64 // share of the requests
}

// Over says whether it refuses more than was asked.
func (f Fit) Over() bool { return f.Refused > f.Asked*(1+1e-9) }

// Template says whether c stands for many.
func (c *Class) Template() bool { return c.Names > 0 }

// Make works the limits out. It tells progress, unless nil, how much of that is done,
// from 0 to 1, and stops with its error when ctx is done.
func (r *Recorder) Make(ctx context.Context, o Options, length time.Duration, progress func(float64)) (*Plan, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &Plan{Options: o, Seconds: length.Seconds(), Requests: r.count}
	slices.SortFunc(r.order, func(a, b *recorded) int { return slices.Compare(a.path, b.path) })
	few := func(c *recorded) bool { return len(c.requests) < o.Few || !named(c.path) }
	small := map[string][]*recorded{} // by the path above
	for _, c := range r.order {
		if few(c) {
			above := htb.Path(c.path[:len(c.path)-1]...)
			small[above] = append(small[above], c)
		}
	}
	for _, c := range r.order {
		above := c.path[:len(c.path)-1]
		pool := small[htb.Path(above...)]
		switch {
		case !few(c) || len(pool) == 1 && named(c.path):
			p.Classes = append(p.Classes, newClass(c.path, 0, c))
		case pool[0] == c:
			p.Classes = append(p.Classes, newClass(append(slices.Clone(above), htb.Template), len(pool), pool...))
		}
	}
	slices.SortStableFunc(p.Classes, func(a, b Class) int {
		return cmp.Or(slices.Compare(a.Path[:len(a.Path)-1], b.Path[:len(b.Path)-1]), cmp.Compare(a.Names, b.Names))
	})
	f := fitter{Plan: p, ctx: ctx, progress: progress}
	for i := range p.Classes {
		f.all += f.searches(&p.Classes[i]) * p.Classes[i].Requests
	}
	for i := range p.Classes {
		if err := f.fit(&p.Classes[i]); err != nil {
			return nil, err
		}
	}
	p.note()
	return p, nil
}

// named says whether a class of a tree may be called so.
func named(path []string) bool {
	name := path[len(path)-1]
	return name != htb.Template && name != htb.RootPath && len(name) <= htb.MaxName && utf8.ValidString(name)
}

// check finds classes that are asked for and have others below them.
func (r *Recorder) check() error {
	if r.count == 0 {
		return errors.New("plan: there are no requests")
	}
	for _, c := range r.order {
		for n := 1; n < len(c.path); n++ {
			if above := htb.Path(c.path[:n]...); r.classes[above] != nil {
				return fmt.Errorf("plan: %q has requests of its own, and so has %q below it: a class of a tree either takes traffic or shares it, so give the former a name below, such as %q", above, htb.Path(c.path...), above+"/direct")
			}
		}
	}
	return nil
}

func newClass(path []string, names int, of ...*recorded) Class {
	c := Class{Path: path, Names: names}
	for _, r := range of {
		c.groups = append(c.groups, r.requests)
		c.Requests += int64(len(r.requests))
		for _, q := range r.requests {
			c.Units = plus(c.Units, q.cost)
			c.Largest = max(c.Largest, q.cost)
		}
	}
	return c
}

// limit is a rate of about so many units per second, and the burst that goes with it.
func (p *Plan) limit(perSecond float64, largest int64) algo.Limit {
	r := round(perSecond)
	return algo.Limit{Rate: r, Burst: max(2, largest, r.Over(p.Saved))}
}

// round returns the rate with three digits that is not below so many units per second:
// per second, minute, hour or day, the first in which it is 100 or more.
func round(perSecond float64) algo.Rate {
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		units := perSecond * period.Seconds()
		if units < 100 && period < 24*time.Hour {
			continue
		}
		digit := math.Pow(10, max(0, math.Floor(math.Log10(units))-2))
		r, err := algo.NewRate(max(1, int64(math.Ceil(units/digit*(1-1e-9))*digit)), period)
		if err == nil {
			return r
		}
	}
	return algo.PerSecond(1e12)
}

// plus returns a+b, at most 2^63-1; neither is negative.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// Name is how a class is called in a table.
func (c *Class) Name() string { return htb.Mistake{Path: c.Path}.Where() }
