package queue

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAgendaAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Agenda[int]
		type key struct {
			key int64
			id  int
		}
		var model []key
		base := int64(0)
		for n := range rapid.IntRange(0, 200).Draw(t, "ops") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0, 1, 2: // mostly in order
				base += rapid.Int64Range(0, 1).Draw(t, "step")
				a.Add(base, n, n)
				model = append(model, key{base, n})
			case 3, 4:
				k := key{base + rapid.Int64Range(-20, 20).Draw(t, "key"), -n}
				a.Add(k.key, k.id, k.id)
				model = append(model, k)
			case 5:
				odd := func(k int64) bool { return k%3 != 0 }
				a.Keep(func(k int64, _ int) bool { return odd(k) })
				model = slices.DeleteFunc(model, func(k key) bool { return !odd(k.key) })
			default:
				k, id, v, ok := a.First()
				require.Equal(t, len(model) > 0, ok)
				if !ok {
					continue
				}
				slices.SortFunc(model, func(a, b key) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) })
				require.Equal(t, model[0], key{k, id})
				require.Equal(t, id, v)
				a.Next()
				model = model[1:]
			}
			require.Equal(t, len(model), a.Len())
		}
	})
}

// What comes in order stays out of the heap, even after one that is far ahead.
func TestAgendaKeepsOrderCheap(t *testing.T) {
	var a Agenda[int]
	for i := range 100 {
		if i%10 == 5 {
			a.Add(int64(i)+1_000_000, i, i)
		}
		a.Add(int64(i), i, i)
	}
	require.Len(t, a.heap, 10)
	require.Equal(t, 100, a.n)
}
