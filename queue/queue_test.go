package queue

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

func TestFIFOAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := FIFO[int]{MaxItems: rapid.IntRange(0, 5).Draw(t, "items"), MaxCost: rapid.Int64Range(0, 20).Draw(t, "cost")}
		var model []*Item[int]
		sum := func() (s int64) {
			for _, i := range model {
				s += i.Cost
			}
			return s
		}
		for n := range rapid.IntRange(0, 60).Draw(t, "ops") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				i := &Item[int]{Value: n, Cost: rapid.Int64Range(1, 9).Draw(t, "c")}
				room := (q.MaxItems == 0 || len(model) < q.MaxItems) && (q.MaxCost == 0 || len(model) == 0 || sum()+i.Cost <= q.MaxCost)
				require.Equal(t, room, q.Push(i))
				require.Equal(t, room, i.Queued())
				if room {
					model = append(model, i)
				}
			case 1:
				if len(model) == 0 {
					require.Nil(t, q.Pop())
					continue
				}
				require.Same(t, model[0], q.Head())
				require.Same(t, model[0], q.Pop())
				model = model[1:]
			case 2:
				if len(model) > 0 {
					k := rapid.IntRange(0, len(model)-1).Draw(t, "k")
					i := model[k]
					require.True(t, q.Remove(i))
					require.False(t, q.Remove(i))
					model = slices.Delete(slices.Clone(model), k, k+1)
				}
			}
			require.Equal(t, len(model), q.Len())
			require.Equal(t, sum(), q.Cost())
		}
	})
}

func TestFIFOEdges(t *testing.T) {
	var q, other FIFO[string]
	i := &Item[string]{Cost: math.MaxInt64}
	require.True(t, q.Push(i))
	require.False(t, q.Push(&Item[string]{Cost: 1}), "the sum of costs does not wrap round")
	require.False(t, other.Remove(i))
	require.Panics(t, func() { other.Push(i) })
}

func TestWaitingIsOrdered(t *testing.T) {
	w := NewWaiting[string]()
	_, _, _, ok := w.First()
	require.False(t, ok)
	w.Add(5, 1, "c")
	w.Add(5, 0, "b")
	w.Add(-3, 9, "a")
	w.Add(5, 2, "d")
	require.True(t, w.Remove(5, 2))
	require.False(t, w.Remove(5, 2))
	for _, want := range []string{"a", "b", "c"} {
		at, id, got, ok := w.First()
		require.True(t, ok)
		require.Equal(t, want, got)
		require.True(t, w.Remove(at, id))
	}
	require.Zero(t, w.Len())
}

func TestQueueingDoesNotAllocate(t *testing.T) {
	var q FIFO[int]
	w := NewWaiting[int]()
	items := make([]Item[int], 100)
	for i := range items {
		q.Push(&items[i])
		w.Add(algo.Time(i), i, i)
	}
	n := algo.Time(100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Push(q.Pop())
		at, id, v, _ := w.First()
		w.Remove(at, id)
		w.Add(n, id, v)
		n++
	}))
}
