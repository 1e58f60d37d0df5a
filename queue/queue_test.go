package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

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
	w := NewWaiting[int]()
	var rr RoundRobin[int]
	turns := make([]Turn[int], 100)
	for i := range turns {
		w.Add(algo.Time(i), i, i)
		turns[i] = Turn[int]{Quantum: 1, ID: i}
		rr.Add(&turns[i])
	}
	n := algo.Time(100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		at, id, v, _ := w.First()
		w.Remove(at, id)
		w.Add(n, id, v)
		rr.Took(rr.First(), int64(n)%3)
		n++
	}))
}
