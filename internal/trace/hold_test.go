package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// given is a line that was let go, and when.
type given struct {
	line int
	at   int64
	late bool
}

// stamped is a line of a log: its time and what its class takes.
type stamped struct {
	at   int64
	size int
}

func runHold(lines []stamped, l limits, spread bool) []given {
	h := hold{limits: l, spread: spread}
	var out []given
	drain := func() {
		for l, at, ok := h.take(); ok; l, at, ok = h.take() {
			out = append(out, given{int(l.cost), at, false})
		}
	}
	for i, s := range lines {
		if h.add(s.at, i, held{&class{size: s.size}, int64(i)}) {
			out = append(out, given{i, h.now, true})
		}
		drain()
	}
	h.ended = true
	drain()
	return out
}

// reference does what hold does with a sorted slice and by counting afresh.
func reference(lines []stamped, l limits, spread bool) []given {
	type waiting struct {
		at   int64
		line int
	}
	var wait []waiting
	full := func() bool {
		bytes := 0
		for _, w := range wait {
			bytes += lines[w.line].size
		}
		return len(wait) >= l.maxHeld || bytes >= l.maxBytes
	}
	var out []given
	var newest, now int64
	last, taken := int64(-1), int64(0) // stamps are 0 or more
	release := func() {
		w := wait[0]
		if w.at != last {
			last, taken = w.at, 0
		}
		var n int64
		for _, o := range wait {
			if o.at == w.at {
				n++
			}
		}
		at := w.at
		if spread {
			at += taken * int64(time.Second) / (taken + n)
		}
		now = max(now, at)
		taken++
		wait = wait[1:]
		out = append(out, given{w.line, now, false})
	}
	for i, s := range lines {
		at := s.at
		if at < last || at == last && newest-at > l.reorder {
			out = append(out, given{i, now, true})
			continue
		}
		newest = max(newest, at)
		wait = append(wait, waiting{at, i})
		slices.SortStableFunc(wait, func(a, b waiting) int { return cmp.Compare(a.at, b.at) })
		for len(wait) > 0 && (newest-wait[0].at > l.reorder || full()) {
			release()
		}
	}
	for len(wait) > 0 {
		release()
	}
	return out
}

func TestHoldAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.Custom(func(t *rapid.T) stamped {
			return stamped{rapid.Int64Range(0, 8).Draw(t, "second") * 1e9, rapid.IntRange(1, 12).Draw(t, "size")}
		})).Draw(t, "lines")
		l := limits{
			reorder:  rapid.Int64Range(0, 6).Draw(t, "reorder") * 1e9,
			maxHeld:  rapid.IntRange(1, 12).Draw(t, "held"),
			maxBytes: rapid.IntRange(1, 40).Draw(t, "bytes"),
		}
		spread := rapid.Bool().Draw(t, "spread")
		got := runHold(lines, l, spread)
		require.Equal(t, reference(lines, l, spread), got)

		seen := make([]bool, len(lines))
		var now int64
		for _, g := range got {
			require.False(t, seen[g.line], "law 2")
			seen[g.line] = true
			require.GreaterOrEqual(t, g.at, now, "law 1")
			now = g.at
			switch own := g.at - lines[g.line].at; {
			case g.late:
				require.GreaterOrEqual(t, own, int64(0))
			case spread:
				require.True(t, 0 <= own && own < 1e9, "law 3: %d", own)
			default:
				require.Zero(t, own, "law 3")
			}
		}
		require.Len(t, got, len(lines), "law 2")
	})
}

// Two huge names go one by one, as 0 of 1 and 1 of 2. Then four small ones are
// held together, of which the first would be 2 of 6: before the one just yielded.
func TestTimesDoNotGoBackWithinASecond(t *testing.T) {
	l := limits{reorder: 1e9, maxHeld: 100, maxBytes: 10}
	got := runHold([]stamped{{0, 10}, {0, 10}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}, l, true)
	require.Equal(t, []given{
		{0, 0, false}, {1, 500_000_000, false},
		{2, 500_000_000, false}, {3, 500_000_000, false},
		{4, 666_666_666, false}, {5, 833_333_333, false},
	}, got)
}

// A log whose lines are moved by at most Reorder gives the same requests at the
// same times as the sorted one.
func TestShufflingWithinReorderChangesNothing(t *testing.T) {
	type entry struct {
		at, arrives int64
		text        string
	}
	for _, format := range []string{FormatAccessLog, FormatCSV} {
		t.Run(format, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				reorder := rapid.Int64Range(0, 20).Draw(rt, "reorder")
				entries := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) entry {
					at := rapid.Int64Range(0, 60).Draw(rt, "at")
					client := rapid.IntRange(1, 5).Draw(rt, "client")
					cost := rapid.IntRange(1, 5).Draw(rt, "cost")
					// A line that arrives by then has none before it that is newer by more.
					arrives := at + rapid.Int64Range(0, reorder).Draw(rt, "delay")
					text := fmt.Sprintf("%d,c%d,%d\n", at, client, cost)
					if format == FormatAccessLog {
						stamp := time.Unix(at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
						text = fmt.Sprintf("c%d - - [%s] \"GET /\" 200 %d\n", client, stamp, cost)
					}
					return entry{at, arrives, text}
				}), 1, 60).Draw(rt, "entries")
				read := func() (times []int64, lines []string) {
					var b strings.Builder
					if format == FormatCSV {
						b.WriteString("time,class,cost\n")
					}
					for _, e := range entries {
						b.WriteString(e.text)
					}
					o := Options{Cost: CountBytes, Reorder: time.Duration(reorder) * time.Second}
					src, err := newLines(t.Context(), "T", strings.NewReader(b.String()))
					require.NoError(rt, err)
					s, err := scan(src, o)
					require.NoError(rt, err)
					src, err = newLines(t.Context(), "T", strings.NewReader(b.String()))
					require.NoError(rt, err)
					r, err := newReader(src, s, o)
					require.NoError(rt, err)
					for {
						req, ok, err := r.Next()
						require.NoError(rt, err)
						if !ok {
							break
						}
						times = append(times, int64(req.At))
						lines = append(lines, fmt.Sprint(req.At.Truncate(time.Second), req.Class, req.Cost))
					}
					late, _ := r.Late()
					require.Zero(rt, late, "law 4")
					return times, lines
				}
				slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
				times, lines := read()
				require.True(rt, slices.IsSorted(times))
				slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.arrives, b.arrives) })
				shuffledTimes, shuffled := read()
				require.Equal(rt, times, shuffledTimes)
				require.ElementsMatch(rt, lines, shuffled)
			})
		})
	}
}
