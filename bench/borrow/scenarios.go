package main

import (
	"fmt"
	"math"
	"slices"
)

const depth = 0.1 // seconds of capacity that the bucket holds

// trial is one set of children that ask a policer for a while.
type trial struct {
	group, name string
	pool        pool
	sources     []source
	warm, end   float64
}

func equal(n int) []float64 {
	q := make([]float64, n)
	for i := range q {
		q[i] = 1
	}
	return q
}

// doubling is 1, 2, 4 ... and, if there are more than ten, from 128 to 1 again.
func doubling(n int) []float64 {
	q := make([]float64, n)
	for i := range q {
		k := i
		if n > 10 {
			k = i % 8
		}
		q[i] = math.Ldexp(1, k)
	}
	return q
}

func newPool(capacity float64, quanta []float64) pool {
	return pool{capacity, depth * capacity, quanta}
}

// run is how a scheme fares.
func (t trial) run(s scheme, stream uint64) outcome {
	return judge(simulate(s.make(t.pool), t.sources, t.warm, t.end, stream, nil), t.pool, t.end-t.warm)
}

// fairTrials are those that are judged by what everybody gets in the long run.
func fairTrials() []trial {
	return slices.Concat(backlogged(), loud(), demands(), large(), light(), onOff(), someLarge(), lone())
}

func backlogged() (all []trial) {
	for _, n := range []int{2, 10, 100, 10_000} {
		warm, end := 2.0, 22.0
		if n == 10_000 {
			warm, end = 20, 120
		}
		for i, q := range [][]float64{equal(n), doubling(n)} {
			t := trial{"a all", fmt.Sprintf("%s, n %d", []string{"equal", "weights"}[i], n), newPool(1000, q), nil, warm, end}
			for _, w := range q {
				t.sources = append(t.sources, source{rate: 5 * t.pool.capacity * w / sum(q), min: 1, max: 1})
			}
			all = append(all, t)
		}
	}
	return all
}

func loud() (all []trial) {
	for _, n := range []int{2, 10, 100, 10_000} {
		p := newPool(1000, equal(n+1))
		share := p.capacity / float64(n+1)
		sources := append([]source{{rate: 1000 * share, min: 1, max: 1}}, slices.Repeat([]source{{rate: 0.9 * share, min: 1, max: 1}}, n)...)
		all = append(all, trial{"b loud", fmt.Sprintf("n %d+1", n), p, sources, 1, min(101, 1+3*math.Sqrt(float64(n)))})
	}
	return all
}

func demands() (all []trial) {
	rng := random(3)
	for _, n := range []int{3, 10} {
		for draw := range 4 {
			shares := make([]float64, n)
			for i := range shares {
				shares[i] = math.Pow(10, rng.Float64()*2-1)
			}
			for _, k := range []kind{poisson, constant} {
				for _, c := range []struct {
					group    string
					capacity float64
					most     int
				}{{"c any", 5000, 1}, {"c1 costs", 50_000, 20}, {"c2 coarse", 1000, 20}} {
					t := trial{c.group, fmt.Sprintf("n %d, draw %d, %s", n, draw, []string{"poisson", "constant"}[k]), newPool(c.capacity, equal(n)), nil, 1, 21}
					for _, d := range shares {
						t.sources = append(t.sources, source{kind: k, rate: d * c.capacity / float64(n), min: 1, max: c.most})
					}
					all = append(all, t)
				}
			}
		}
	}
	return all
}

func large() (all []trial) {
	others := slices.Repeat([]source{{rate: 500, min: 1, max: 1}}, 9)
	for _, cost := range []int{30, 60, 100} {
		for _, c := range []struct {
			group, does string
			one         source
		}{
			{"h large", "wants 0.9 shares", source{rate: 90}},
			{"h large", "wants 5 shares", source{rate: 500}},
			{"h2 large", "comes back when told", source{kind: hungry}},
		} {
			c.one.min, c.one.max = cost, cost
			all = append(all, trial{c.group, fmt.Sprintf("cost %d, %s", cost, c.does), newPool(1000, equal(10)), append([]source{c.one}, others...), 2, 102})
		}
	}
	return all
}

func someLarge() (all []trial) {
	for _, n := range []int{1, 5} {
		sources := slices.Repeat([]source{{kind: hungry, min: 60, max: 60}}, n)
		sources = append(sources, slices.Repeat([]source{{rate: 500, min: 1, max: 3}}, 10-n)...)
		all = append(all, trial{"h3 large", fmt.Sprintf("%d of 10", n), newPool(1000, equal(10)), sources, 2, 102})
	}
	return all
}

func light() (all []trial) {
	for _, load := range []float64{0.7, 0.9} {
		for _, n := range []int{1, 10} {
			t := trial{"i light", fmt.Sprintf("%.1f by %d of 10", load, n), newPool(1000, equal(10)), nil, 2, 102}
			t.sources = append(slices.Repeat([]source{{rate: load * 1000 / float64(n), min: 1, max: 20}}, n), slices.Repeat([]source{silent}, 10-n)...)
			all = append(all, t)
		}
	}
	return all
}

func onOff() (all []trial) {
	for _, on := range []float64{0.02, 0.05, 0.15, 0.5} {
		t := trial{"j on-off", fmt.Sprintf("%g ms", on*1000), newPool(10_000, equal(10)), nil, 2, 22}
		t.sources = append(slices.Repeat([]source{{rate: 5000, min: 1, max: 1, on: on}}, 5), slices.Repeat([]source{{rate: 5000, min: 1, max: 1}}, 5)...)
		all = append(all, t)
	}
	return all
}

func lone() (all []trial) {
	for _, n := range []int{2, 10, 100} {
		for i, s := range []source{{rate: 2000, min: 1, max: 1}, {kind: hungry, min: 1, max: 1}} {
			sources := append([]source{s}, slices.Repeat([]source{silent}, n-1)...)
			all = append(all, trial{"g lone", fmt.Sprintf("%s, 1 of %d", []string{"poisson 2x", "hungry"}[i], n), newPool(1000, equal(n)), sources, 2, 12})
		}
	}
	return all
}

var silent = source{rate: 1, min: 1, max: 1, from: math.Inf(1)}
