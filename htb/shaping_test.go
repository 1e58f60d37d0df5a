package htb

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/queue"
)

// What a release touches keeps to its lines of memory: a field more is a miss more, and a
// size that is no multiple of a line makes Go begin a class in the middle of one.
func TestShapingKeepsToItsLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("lines are counted for words of 64 bits")
	}
	var x shaping
	for field, at := range map[string][2]uintptr{
		"rateTAT":      {unsafe.Offsetof(x.rateTAT), 64},
		"ceil":         {unsafe.Offsetof(x.ceil), 128},
		"the end of q": {unsafe.Offsetof(x.fifo) + unsafe.Offsetof(x.fifo.len), 192},
		"borrowing":    {unsafe.Offsetof(x.borrowing), 256},
		"a class":      {unsafe.Sizeof(x), 320},
		"an item":      {unsafe.Sizeof(Item{}), 64},
	} {
		require.Equal(t, at[1], at[0], field)
	}
}

// However often they are put off, or brought forward, classes wake in the order of
// (time, id), at the time that was said last.
func TestSleepersWakeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w sleepers
		classes := make([]shaping, 6)
		wake := make([]Time, len(classes))
		for i := range classes {
			classes[i] = shaping{own: queue.Turn[*shaping]{ID: i}, wake: never, listed: never}
			wake[i] = never
		}
		now := Time(0)
		for range rapid.IntRange(0, 300).Draw(t, "ops") {
			if rapid.Bool().Draw(t, "sleep") {
				i := rapid.IntRange(0, len(classes)-1).Draw(t, "which")
				at := now + Time(rapid.Int64Range(-1, 20).Draw(t, "for"))
				w.sleep(&classes[i], now, at)
				if wake[i] = at; at <= now {
					wake[i] = never
				}
				continue
			}
			now += Time(rapid.Int64Range(0, 4).Draw(t, "step"))
			for {
				first := -1
				for i, at := range wake {
					if at != never && (first < 0 || at < wake[first]) {
						first = i
					}
				}
				x, ok := w.first()
				require.Equal(t, first >= 0, ok)
				if ok {
					require.Equal(t, first, x.own.ID)
					require.Equal(t, wake[first], x.wake)
				}
				x, ok = w.due(now)
				require.Equal(t, first >= 0 && wake[first] <= now, ok)
				if !ok {
					break
				}
				require.Equal(t, first, x.own.ID)
				wake[first] = never
			}
		}
		require.LessOrEqual(t, w.agenda.Len(), 2*w.most+65)
	})
}
