package main

import "math"

// retriers is what half of the children, which hammer, get for 1 that the others get, which
// come back when they are told to.
func retriers(s scheme, n int) float64 {
	p := newPool(1000, equal(n))
	sources := make([]source, n)
	for i := range sources {
		if i%2 == 0 {
			sources[i] = source{kind: hungry, min: 1, max: 1}
		} else {
			sources[i] = source{rate: 20 * p.capacity / float64(n), min: 1, max: 1}
		}
	}
	t := simulate(s.make(p), sources, 2, 22, 5, nil)
	var halves [2]float64
	for i, got := range t.got {
		halves[i%2] += got
	}
	return halves[1] / halves[0]
}

// rare is how many in a hundred requests pass at once of two children that send one in five
// seconds, beside one that hammers.
func rare(s scheme, least, most int) float64 {
	p := newPool(1000, equal(3))
	one := source{rate: 0.2 * float64(least+most) / 2, min: least, max: most}
	t := simulate(s.make(p), []source{{rate: 3000, min: 1, max: 1}, one, one}, 2, 502, 9, nil)
	return (t.got[1] + t.got[2]) / (t.wanted[1] + t.wanted[2]) * 100
}

// crowd is the longest time that a hungry incumbent gets nothing, in units of its fair gap,
// after many children wake up that want a handful each.
func crowd(s scheme, k int) float64 {
	p := newPool(1000, equal(k+1))
	sources := []source{{rate: 3000, min: 1, max: 1}}
	for range k {
		sources = append(sources, source{kind: hungry, min: 1, max: 1, from: 5, most: 5, pause: 0.02})
	}
	last, gap, left := 5.0, 0.0, 5*k
	simulate(s.make(p), sources, 0, 20, 6, func(now float64, child int, _ float64) {
		if child > 0 {
			left--
		} else if now > 5 {
			if left > 0 || now-last > gap {
				gap = max(gap, now-last)
			}
			last = now
		}
	})
	gap = max(gap, 20-last)
	return gap / (float64(k+1) / p.capacity)
}

// wakeUp is how long it takes until everybody has what is fair within a tenth, after k others
// join a lone borrower, and until that has 99 % again, after they left. In ms; infinite: never.
func wakeUp(s scheme, k int) (join, leave float64) {
	const (
		bin      = 0.01
		from, to = 5.0, 8.0
		end      = 11.0
	)
	n := k + 1
	capacity, span := 1000*float64(n), 10 // bins
	if n == 100 {
		capacity, span = 20_000, 50
	}
	p := newPool(capacity, equal(n))
	sources := []source{{rate: 3 * capacity, min: 1, max: 1}}
	for range k {
		sources = append(sources, source{rate: 5 * capacity / float64(n), min: 1, max: 1, from: from, to: to})
	}
	bins := make([][]float64, int(end/bin)+1)
	for i := range bins {
		bins[i] = make([]float64, n)
	}
	simulate(s.make(p), sources, 0, end, 8, func(now float64, child int, cost float64) { bins[int(now/bin)][child] += cost })
	since := func(begin float64, fair func(got []float64) bool) float64 {
		first := int(math.Round(begin / bin))
		for b := first; b < first+300-span; b++ {
			got := make([]float64, n)
			for _, x := range bins[b : b+span] {
				for i := range got {
					got[i] += x[i]
				}
			}
			if fair(got) {
				return float64(b-first) * bin * 1000
			}
		}
		return math.Inf(1)
	}
	supply := capacity * float64(span) * bin
	join = since(from, func(got []float64) bool {
		for _, g := range got {
			if math.Abs(g-supply/float64(n)) > supply/float64(n)/10 {
				return false
			}
		}
		return true
	})
	return join, since(to, func(got []float64) bool { return got[0] >= 0.99*supply })
}
