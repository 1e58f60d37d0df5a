package queue

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The bound of RoundRobin, over every interval of random runs in which all have items.
func TestRoundRobinIsFair(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(5)
		rr := NewRoundRobin[int]()
		turns := make([]*Turn[int], n)
		largest := make([]int64, n)
		for i := range turns {
			turns[i] = &Turn[int]{Value: i, ID: i, Quantum: 1 + r.Int64N(20)}
			largest[i] = 1 + r.Int64N(60)
			rr.Add(turns[i])
		}
		const steps = 400
		got := make([][]float64, steps+1) // in quanta, up to each step
		got[0] = make([]float64, n)
		for s := range steps {
			first := rr.First()
			cost := 1 + r.Int64N(largest[first.Value])
			rr.Took(first, cost)
			got[s+1] = append([]float64(nil), got[s]...)
			got[s+1][first.Value] += float64(cost) / float64(first.Quantum)
		}
		for i := range n {
			for j := range i {
				bound := 2 + float64(largest[i])/float64(turns[i].Quantum) + float64(largest[j])/float64(turns[j].Quantum)
				low, high := math.Inf(1), math.Inf(-1) // the largest change over any interval
				for s := range got {
					d := got[s][i] - got[s][j]
					low, high = min(low, d), max(high, d)
				}
				require.Less(t, high-low, bound, "seed %d, %d against %d", seed, i, j)
			}
		}
	}
}

func TestRoundRobinSkipsEmptyRounds(t *testing.T) {
	rr := NewRoundRobin[string]()
	a, b := &Turn[string]{Value: "a", ID: 0, Quantum: 1}, &Turn[string]{Value: "b", ID: 1, Quantum: 1}
	rr.Add(a)
	rr.Add(b)
	require.Equal(t, "a", rr.First().Value)
	rr.Took(a, 1_000_000_000)
	for range 1000 {
		require.Equal(t, "b", rr.First().Value)
		rr.Took(b, 1_000)
	}
	rr.Took(b, 1_000_000_000) // now b owes more
	require.Equal(t, "a", rr.First().Value, "not after a thousand million visits")
	rr.Remove(a)
	require.Equal(t, "b", rr.First().Value, "alone it need not wait")
	rr.Add(a)
	rr.Remove(b)
	rr.Remove(a)
	require.Nil(t, rr.First())
	require.Zero(t, rr.Len())
}

// Coming and going does not pay: a member that leaves after each item and comes
// back gets no more than one that stays.
func TestRoundRobinRemembersDebts(t *testing.T) {
	rr := NewRoundRobin[int]()
	stays, comes := &Turn[int]{Value: 0, ID: 1, Quantum: 5}, &Turn[int]{Value: 1, ID: 0, Quantum: 5}
	got := [2]int64{}
	rr.Add(stays)
	for range 1000 {
		rr.Add(comes)
		t := rr.First()
		rr.Took(t, 20)
		got[t.Value] += 20
		rr.Remove(comes)
	}
	require.InDelta(t, got[0], got[1], 60)
}

// The order is that of the rule: the least (round, ID) of the members, who come and go.
func TestRoundRobinAgainstTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rr RoundRobin[int]
		turns := make([]Turn[int], 6)
		rule := make([]Turn[int], len(turns))
		for i := range turns {
			turns[i] = Turn[int]{Value: i, ID: 10 - i, Quantum: rapid.Int64Range(1, 3).Draw(t, "quantum")}
			rule[i] = turns[i]
		}
		round := int64(0)
		for range rapid.IntRange(0, 300).Draw(t, "ops") {
			i := rapid.IntRange(0, len(turns)-1).Draw(t, "which")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				rr.Add(&turns[i])
				if r := &rule[i]; !r.in {
					if r.round < round || r.deficit <= 0 {
						r.round, r.deficit = round, r.Quantum
					}
					r.in = true
				}
			case 1:
				rr.Remove(&turns[i])
				rule[i].in = false
			default:
				var first *Turn[int]
				for j := range rule {
					if r := &rule[j]; r.in && (first == nil || r.round < first.round || r.round == first.round && r.ID < first.ID) {
						first = r
					}
				}
				got := rr.First()
				if first == nil {
					require.Nil(t, got)
					continue
				}
				require.Equal(t, first.Value, got.Value)
				round = first.round
				cost := rapid.Int64Range(1, 7).Draw(t, "cost")
				rr.Took(got, cost)
				if first.deficit -= cost; first.deficit <= 0 {
					rounds := -first.deficit/first.Quantum + 1
					first.deficit += rounds * first.Quantum
					first.round += rounds
				}
			}
		}
	})
}

// Members that come and go while nobody asks who is first leave nothing behind.
func TestRoundRobinForgetsWhoLeft(t *testing.T) {
	var rr RoundRobin[int]
	stays := &Turn[int]{ID: -1, Quantum: 1}
	rr.Add(stays)
	for i := range 1000 {
		comes := &Turn[int]{ID: i, Quantum: 1}
		rr.Add(comes)
		rr.Remove(comes)
	}
	require.Less(t, rr.agenda.Len(), 30)
	require.Same(t, stays, rr.First())
}
