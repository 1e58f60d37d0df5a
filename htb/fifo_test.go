package htb

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFIFOAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := fifo{limit: rapid.Int32Range(1, 5).Draw(t, "limit")}
		var model []*Item
		sum := func() (s int64) {
			for _, i := range model {
				s += i.Cost
			}
			return s
		}
		for range rapid.IntRange(0, 60).Draw(t, "ops") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				i := &Item{Cost: rapid.Int64Range(1, 9).Draw(t, "cost")}
				room := len(model) < int(q.limit)
				require.Equal(t, room, q.push(i))
				require.Equal(t, room, i.in)
				if room {
					model = append(model, i)
				}
			case 1:
				if len(model) > 0 {
					require.Same(t, model[0], q.pop())
					require.False(t, model[0].in)
					model = model[1:]
				}
			case 2:
				if len(model) > 0 {
					k := rapid.IntRange(0, len(model)-1).Draw(t, "k")
					q.remove(model[k])
					require.False(t, model[k].in)
					model = slices.Delete(slices.Clone(model), k, k+1)
				}
			}
			require.Equal(t, len(model), q.Len())
			require.Equal(t, sum(), q.cost)
			if len(model) == 0 {
				require.Nil(t, q.head)
				require.Nil(t, q.tail)
				continue
			}
			require.Same(t, model[0], q.head)
			require.Same(t, model[len(model)-1], q.tail)
		}
	})
}

func TestFIFOEdges(t *testing.T) {
	q := fifo{limit: 10}
	i := &Item{Cost: math.MaxInt64}
	require.True(t, q.push(i))
	require.False(t, q.push(&Item{Cost: 1}), "the sum of costs does not wrap round")
	require.Panics(t, func() { q.push(i) })
}
