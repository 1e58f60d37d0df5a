package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/bench/internal/rig"
	"github.com/go-sluice/sluice/htb"
)

// coresGroups are what two cores are worth, measured so that it is the same on a machine
// that others use: by the moments at which two threads decided at once.
func coresGroups() []group {
	return []group{{
		figure: "1", name: "cores", cores: 2, turns: 1,
		title:   "Leased, two threads: a decision of one alone, of one while the other decides too, and over both",
		columns: []string{"alone ns", "beside ns", "ns", "of one core"}, first: "ns",
		contenders: []contender{
			moments("two leaves", leased), moments("one leaf", leasedOne),
		},
		targets: []target{
			{what: "leased, two leaves by two cores, of one by one", of: "two leaves", column: "of one core", most: 1, aim: 0.6},
			{what: "leased, one leaf by two cores, of one by one", of: "one leaf", column: "of one core", most: 1, aim: 0.6},
		},
	}}
}

// span is the time of so many decisions of a thread: some tens of microseconds, of which
// few are interrupted.
type span struct{ from, to htb.Time }

const decisions = 1000

func moments(name string, s setting) contender {
	return contender{name, func(options) (trial, error) {
		tree, err := plant(s, 2)
		if err != nil {
			return trial{}, err
		}
		loops, err := inAdvance(tree, s, 2)
		round := func() (figures, error) {
			alone := middle(spans(loops[:1])[0])
			var at []span
			for range 100 { // until both had a core for long enough
				both := spans(loops)
				at = append(at, beside(both[0], both[1], 10*alone*decisions)...)
				if len(at) > 100 {
					m := middle(at)
					return figures{"alone ns": alone, "beside ns": m, "ns": m / 2, "of one core": m / 2 / alone}, nil
				}
			}
			return nil, errors.New("two threads hardly ever had two cores: others use the machine")
		}
		check := func() error { return checkOurs(tree, tenant(0), own) }
		return trial{round: round, check: check}, err
	}}
}

// spans has a thread for each loop decide for a while.
func spans(loops []loop) [][]span {
	all := make([][]span, len(loops))
	end := sluice.Now().Add(200 * time.Millisecond)
	var wg sync.WaitGroup
	for i, l := range loops {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for now := sluice.Now(); now < end; {
				from := now
				if n := l(decisions); n != decisions {
					panic(fmt.Sprintf("%d of %d decisions were allowed", n, decisions))
				}
				now = sluice.Now()
				all[i] = append(all[i], span{from, now})
			}
		})
	}
	wg.Wait()
	return all
}

// beside returns those spans of a that lie beside some of b, but for a twentieth; those of
// b longer than most were interrupted.
func beside(a, b []span, most float64) (at []span) {
	for _, s := range a {
		for len(b) > 0 && b[0].to <= s.from {
			b = b[1:]
		}
		var over htb.Time
		for _, o := range b {
			if o.from >= s.to {
				break
			}
			if float64(o.to-o.from) <= most {
				over += min(o.to, s.to) - max(o.from, s.from)
			}
		}
		if 20*over >= 19*(s.to-s.from) {
			at = append(at, s)
		}
	}
	return at
}

// middle returns the median of what a decision took.
func middle(all []span) float64 {
	each := make([]float64, len(all))
	for i, s := range all {
		each[i] = float64(s.to-s.from) / decisions
	}
	return rig.Median(each)
}
