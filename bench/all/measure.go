package main

import (
	"context"
	"fmt"

	"github.com/go-sluice/sluice/bench/internal/rig"
)

// table is a group that was measured.
type table struct {
	group
	Figure, Name, Title string
	Cores               int
	Rounds              map[string][]figures // by contender
	Verdicts            []verdict
}

// measure takes the rounds of a group.
func measure(ctx context.Context, g group, o options, rounds int) (t table, err error) {
	t = table{group: g, Figure: g.figure, Name: g.name, Title: g.title, Cores: g.cores, Rounds: map[string][]figures{}}
	if g.once {
		rounds = 1
	}
	all := make([]*process, len(g.contenders))
	defer func() {
		for _, p := range all {
			if p != nil {
				p.kill()
			}
		}
	}()
	begin := func(i int) (err error) {
		all[i], err = start(g.name+"/"+g.contenders[i].name, g.cores, o)
		return err
	}
	end := func(i int) error {
		p := all[i]
		all[i] = nil
		return p.end()
	}
	if !g.apart {
		for i := range all {
			if err := begin(i); err != nil {
				return t, err
			}
		}
		for _, p := range all { // a turn to warm up, which is not counted
			if g.cold {
				break
			}
			if _, err := p.round(); err != nil {
				return t, err
			}
		}
	}
	for r := range rounds {
		sums := make([]figures, len(all))
		turns := max(1, g.turns)
		for turn := range turns {
			for k := range all {
				i := (k + r + turn) % len(all)
				if err := ctx.Err(); err != nil {
					return t, err
				}
				if g.apart {
					if err := begin(i); err != nil {
						return t, err
					}
				}
				f, err := all[i].round()
				if err != nil {
					return t, err
				}
				sums[i] = sums[i].plus(f, 1/float64(turns))
				if g.apart {
					if err := end(i); err != nil {
						return t, err
					}
				}
			}
		}
		for i, c := range g.contenders {
			t.Rounds[c.name] = append(t.Rounds[c.name], sums[i])
		}
	}
	if !g.apart {
		for i := range all {
			if err := end(i); err != nil {
				return t, err
			}
		}
	}
	for _, x := range g.targets {
		t.Verdicts = append(t.Verdicts, t.judge(x))
	}
	return t, nil
}

func (f figures) plus(more figures, weight float64) figures {
	if f == nil {
		f = figures{}
	}
	for name, v := range more {
		f[name] += v * weight
	}
	return f
}

func (t *table) median(contender, column string) (float64, bool) {
	var all []float64
	for _, f := range t.Rounds[contender] {
		if v, ok := f[column]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return rig.Median(all), true
}

// ratio is the median of the rounds' ratios of one contender to the least of others.
func (t *table) ratio(of, column string, than ...string) float64 {
	var all []float64
	for r, f := range t.Rounds[of] {
		least := t.Rounds[than[0]][r][column]
		for _, other := range than[1:] {
			least = min(least, t.Rounds[other][r][column])
		}
		all = append(all, f[column]/least)
	}
	return rig.Median(all)
}

// verdict is a target beside what was measured.
type verdict struct {
	Figure, What   string
	Measured       float64
	AtMost, Aim    float64
	Met, AimMet    bool
	TimesTooMuch   float64
	ExpressedRatio bool
}

func (t *table) judge(x target) verdict {
	v := verdict{Figure: t.Figure, What: x.what, AtMost: x.most, Aim: x.aim, ExpressedRatio: len(x.than) > 0}
	if v.ExpressedRatio {
		v.Measured = t.ratio(x.of, x.column, x.than...)
	} else {
		v.Measured, _ = t.median(x.of, x.column)
	}
	v.Met, v.AimMet = v.Measured <= x.most, x.aim > 0 && v.Measured <= x.aim
	if !v.Met && x.most > 0 {
		v.TimesTooMuch = v.Measured / x.most
	}
	return v
}

func (v verdict) String() string {
	switch {
	case v.AimMet:
		return "met, and the aim"
	case v.Met && v.Aim > 0:
		return "met, the aim not"
	case v.Met:
		return "met"
	case v.TimesTooMuch > 0:
		return fmt.Sprintf("MISSED: %.2f times too much", v.TimesTooMuch)
	}
	return "MISSED"
}
