package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

// shaperGroups are figure 4: what a pair of Enqueue and Dequeue takes with that many
// classes backlogged, two requests each, in three levels of fifty below each tenant.
func shaperGroups() []group {
	few, many := "1 000 classes", "100 000 classes"
	g := group{
		figure: "4", name: "shaper", title: "Shaper: an enqueue and a dequeue, one core, three levels, every class backlogged", cores: 1,
		columns: []string{"ns", "wall ns", "allocs", "B"}, first: "ns", turns: 5,
	}
	for _, kind := range []struct {
		name      string
		saturated bool
	}{{"guaranteed", false}, {"saturated", true}} {
		of := func(classes string) string { return classes + ", " + kind.name }
		g.contenders = append(g.contenders,
			contender{of(few), func(options) (trial, error) { return scheduling(1_000, kind.saturated) }},
			contender{of(many), func(options) (trial, error) { return scheduling(100_000, kind.saturated) }})
		g.targets = append(g.targets,
			target{what: "ns for a pair, " + of(few), of: of(few), column: "ns", most: 1000},
			target{what: fmt.Sprintf("%s, of %s, %s", many, few, kind.name), of: of(many), column: "ns", than: []string{of(few)}, most: 2},
			target{what: "allocations for a pair, " + of(few), of: of(few), column: "allocs"})
	}
	return []group{g}
}

// scheduling has classes that are within their guarantees, in real time; or, saturated,
// classes that have used up what they saved, send all that there is, wait for tokens, and
// are woken: in time that goes on when nobody may send, so that nothing is waited for.
func scheduling(classes int, saturated bool) (trial, error) {
	const below = 50
	tenants := classes / below
	part := func(n int) algo.Rate { return algo.PerSecond(int64(rig.Fast / n)) }
	class := func(name string, of, saved int, children ...htb.Spec) htb.Spec {
		c := rig.Class(name, part(of), part(1), children...)
		if saturated { // what it may save up is soon gone
			c.Burst, c.CBurst = int64(saved), rig.Fast
		}
		return c
	}
	root := class("", 1, 4*classes)
	for i := range tenants {
		t := class(fmt.Sprint("t", i), tenants, 3*below)
		for j := range below {
			t.Children = append(t.Children, class(fmt.Sprint("c", j), classes, 2))
		}
		root.Children = append(root.Children, t)
	}
	if saturated {
		root.CBurst = root.Burst
	}
	s, err := htb.NewScheduler(root, htb.Strict)
	if err != nil {
		return trial{}, err
	}
	begin, now := sluice.Now(), htb.Time(0)
	read := func() htb.Time {
		if at := sluice.Now(); !saturated {
			now = htb.Time(at - begin)
		}
		return now
	}
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(classes) {
		leaf, err := s.Leaf(fmt.Sprint("t", i/below), fmt.Sprint("c", i%below))
		if err != nil {
			return trial{}, err
		}
		for range 2 {
			if err := s.EnqueueLeaf(now, &htb.Item{Cost: 1, Value: leaf}, leaf); err != nil {
				return trial{}, err
			}
		}
	}
	pairs := func(n int) (done int) {
		for range n {
			item, next, ok := s.Dequeue(read())
			for !ok {
				now = max(now, next)
				item, next, ok = s.Dequeue(now)
			}
			if s.EnqueueLeaf(read(), item, item.Value.(*htb.Leaf)) == nil {
				done++
			}
		}
		return done
	}
	for i := 0; saturated && i < classes; i++ { // one by one, or all would be woken in the same moment
		now++
		pairs(1)
	}
	pairs(40 * classes) // until what they had saved up is gone, and the histograms of each are made
	t, begun := timed(true, pairs), now
	t.check = func() error {
		if saturated && now == begun {
			return errors.New("nobody ever waited for tokens")
		}
		if s.Len() != 2*classes {
			return fmt.Errorf("%d requests are queued, not %d", s.Len(), 2*classes)
		}
		return nil
	}
	return t, nil
}
