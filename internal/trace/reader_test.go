package trace

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each case is read to its end and compared line by line: when, class, cost.
func TestOrderAndSpread(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name string
		o    Options
		text string
		want string
		late string
	}{
		{
			name: "one line", o: Options{Reorder: minute},
			text: logOf("10:05:03"),
			want: "0s c1 1\n",
		},
		{
			name: "the lines of a second are spread over it", o: Options{Reorder: minute},
			text: logOf("10:05:03", "10:05:03", "10:05:03", "10:05:04", "10:05:04", "10:05:06"),
			want: "0s c1 1\n333.333333ms c2 1\n666.666666ms c3 1\n1s c4 1\n1.5s c5 1\n3s c6 1\n",
		},
		{
			name: "put in order, ties as in the file", o: Options{Reorder: minute},
			text: logOf("10:05:05", "10:05:03", "10:05:05", "10:05:04", "10:05:03"),
			want: "0s c2 1\n500ms c5 1\n1s c4 1\n2s c1 1\n2.5s c3 1\n",
		},
		{
			name: "a line just Reorder behind is in time", o: Options{Reorder: minute},
			text: logOf("10:05:03", "10:06:03", "10:05:03", "10:06:04"),
			want: "0s c1 1\n500ms c3 1\n1m0s c2 1\n1m1s c4 1\n",
		},
		{
			// c3 opens 10:06:04, so 10:05:03 is over and c4 is late for it: it comes at
			// the latest time yielded, which is c1's.
			name: "a line one second more behind is late", o: Options{Reorder: minute},
			text: logOf("10:05:03", "10:06:03", "10:06:04", "10:05:03", "10:05:02"),
			want: "0s c1 1\n0s c4 1\n0s c5 1\n1m0s c2 1\n1m1s c3 1\n",
			late: "2 [4 5]",
		},
		{
			name: "late within the spread of the last second yielded", o: Options{Reorder: time.Second},
			text: logOf("10:05:03", "10:05:03", "10:05:05", "10:05:03"),
			want: "0s c1 1\n500ms c2 1\n500ms c4 1\n2s c3 1\n",
			late: "1 [4]",
		},
		{
			name: "no reordering", o: Options{},
			text: logOf("10:05:03", "10:05:03", "10:05:04", "10:05:03", "10:05:04"),
			want: "0s c1 1\n500ms c2 1\n500ms c4 1\n1s c3 1\n1.5s c5 1\n",
			late: "1 [4]",
		},
		{
			// Nothing was yielded yet, so nothing is passed.
			name: "far behind, but still first", o: Options{Reorder: time.Second},
			text: logOf("10:05:09", "10:05:03", "10:05:09"),
			want: "0s c2 1\n6s c1 1\n6.5s c3 1\n",
		},
		{
			name: "first behind a pair just Reorder apart", o: Options{Reorder: time.Second},
			text: logOf("10:05:05", "10:05:06", "10:05:04"),
			want: "0s c3 1\n1s c1 1\n2s c2 1\n",
		},
		{
			// The first goes when two are held: 0 of 2; then 1 of 3 and so on: a
			// second with more lines than are held stays within itself and in order,
			// and nobody is called late.
			name: "more lines of a second than are held", o: Options{Reorder: minute, MaxHeld: 2},
			text: logOf("10:05:03", "10:05:03", "10:05:03", "10:05:03", "10:05:04"),
			want: "0s c1 1\n333.333333ms c2 1\n500ms c3 1\n750ms c4 1\n1s c5 1\n",
		},
		{
			name: "a full hold lets the oldest go", o: Options{Reorder: minute, MaxHeld: 2},
			text: logOf("10:05:04", "10:05:03", "10:05:05", "10:05:02", "10:05:04"),
			want: "0s c2 1\n1s c1 1\n1s c4 1\n1.5s c5 1\n2s c3 1\n",
			late: "1 [4]",
		},
		{
			name: "no hold at all", o: Options{Reorder: minute, MaxHeld: 1},
			text: logOf("10:05:04", "10:05:03", "10:05:05"),
			want: "0s c1 1\n0s c2 1\n1s c3 1\n",
			late: "1 [2]",
		},
		{
			name: "zones", o: Options{Reorder: minute},
			text: "a - - [17/May/2015:23:30:00 -0130] \"-\" 408 -\nb - - [18/May/2015:02:00:01 +0100] \"-\" 408 -\n",
			want: "0s a 1\n1s b 1\n",
		},
		{
			name: "over midnight, a leap day and a leap second", o: Options{Reorder: minute},
			text: "a - - [28/Feb/2016:23:59:59 +0000] \"-\" 408 -\nb - - [29/Feb/2016:00:00:00 +0000] \"-\" 408 -\nc - - [28/Feb/2016:23:59:60 +0000] \"-\" 408 -\n",
			want: "0s a 1\n1s b 1\n1.5s c 1\n",
		},
		{
			name: "bytes by prefix", o: Options{By: ByPrefix, Cost: CountBytes, Reorder: minute},
			text: logOf("10:05:03", "10:05:04"),
			want: "0s a 1\n1s a 10\n",
		},
		{
			name: "a CSV is exact and not spread", o: Options{Reorder: minute, By: ByPrefix, Cost: CountBytes},
			text: "class,cost,time\nfree/alice,3,100\nacme,9223372036854775807,100.000000001\nfree/a%2Fb,1,100\nx,2,99.5\n",
			want: "0s x 2\n500ms free|alice 3\n500ms free|a/b 1\n500.000001ms acme 9223372036854775807\n",
		},
		{
			name: "a late line of a CSV", o: Options{Reorder: time.Second},
			text: "time,class,cost\n0,a,1\n1.000000001,b,1\n0.5,c,1\n3,d,1\n1,e,1\n1.000000001,f,1\n",
			want: "0s a 1\n500ms c 1\n1.000000001s b 1\n1.000000001s e 1\n1.000000001s f 1\n3s d 1\n",
			late: "2 [6 7]",
		},
		{
			name: "quotes in a CSV", o: Options{},
			text: "\"time\",\"class\",\"cost\"\n\"0\",\"a,\"\"b\"\"/c\",\"1\"\n1,\"d\",2",
			want: "0s a,\"b\"|c 1\n1s d 2\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, late := play(t, write(t, c.text), c.o)
			assert.Equal(t, c.want, got)
			if c.late == "" {
				c.late = "0 []"
			}
			assert.Equal(t, c.late, late)
		})
	}
}

// The same lines in every wrapping that files come in.
func TestWrappings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"log", logOf("10:05:03", "10:05:04"), "0s c1 1\n1s c2 1\n"},
		{"csv", "time,class,cost\n0,c1,1\n1,c2,1\n", "0s c1 1\n1s c2 1\n"},
	} {
		crlf := strings.ReplaceAll(c.text, "\n", "\r\n")
		half := strings.IndexByte(c.text, '\n') + 5
		for _, w := range []struct{ name, text string }{
			{"plain", c.text},
			{"crlf", crlf},
			{"mark", "\ufeff" + c.text},
			{"mark and empty lines", "\ufeff\n\r\n" + strings.ReplaceAll(crlf, "\n", "\n\n\r\n")},
			{"no last newline", strings.TrimSuffix(c.text, "\n")},
			{"gzip", zip(t, c.text)},
			{"gzip, mark, crlf", zip(t, "\ufeff"+crlf)},
			{"gzip in two pieces", zip(t, c.text[:half]) + zip(t, c.text[half:])},
		} {
			t.Run(c.name+" "+w.name, func(t *testing.T) {
				got, late := play(t, write(t, w.text), Options{})
				assert.Equal(t, c.want, got)
				assert.Equal(t, "0 []", late)
			})
		}
	}
}

func TestLongestLine(t *testing.T) {
	for _, end := range []string{"", "\n", "\r\n"} {
		line := strings.TrimSuffix(logOf("10:05:03"), "\n")
		line += ` "` + strings.Repeat("x", maxLine-len(line)-3) + `"`
		require.Len(t, line, maxLine)
		got, _ := play(t, write(t, line+end), Options{})
		assert.Equal(t, "0s c1 1\n", got)

		_, err := Scan(t.Context(), write(t, line+"x"+end), Options{})
		assert.ErrorContains(t, err, ":1: ")
		assert.ErrorContains(t, err, "at most 1 MiB")
	}
}

// Names that are too long for any tree are held all the same, but not as many.
func TestHeldBytesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,class,cost\n")
	for i := range 100 {
		fmt.Fprintf(&text, "%d,%s%d,1\n", 1000-i, strings.Repeat("x", 10_000), i)
	}
	o := Options{Reorder: time.Hour, MaxHeld: 1000} // 256 000 bytes: 25 lines and the one that fills it
	path := write(t, text.String())
	s, err := Scan(t.Context(), path, o)
	require.NoError(t, err)
	r, err := Open(path, s, o)
	require.NoError(t, err)
	defer r.Close()
	most := 0
	for n := 0; ; n++ {
		_, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			assert.Equal(t, 100, n)
			break
		}
		most = max(most, r.hold.lines.Len())
	}
	assert.Equal(t, 25, most)
	late, lines := r.Late()
	assert.EqualValues(t, 74, late)
	assert.Equal(t, []int{28, 29, 30, 31, 32, 33, 34, 35, 36, 37}, lines)
}

// Two minutes of a busy log are held at a time, so each line has to take little.
func TestHeldLinesTakeLittle(t *testing.T) {
	const n = 1 << 17
	text := []byte("time,class,cost\n")
	for i := range n {
		text = fmt.Appendf(text, "%d,free/c%d,1\n", i/2000, i%2000)
	}
	o := Options{Reorder: 2 * time.Minute}
	path := write(t, string(text))
	s, err := Scan(t.Context(), path, o)
	require.NoError(t, err)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	r, err := Open(path, s, o)
	require.NoError(t, err)
	defer r.Close()
	_, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, n-1, r.hold.lines.Len())
	assert.Less(t, (heap()-before)/n, int64(56), "bytes a line, those for reading and for 2000 classes among them")
}

func TestClassIsSafeToKeep(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,class,cost\n")
	const n = 3 * maxSeen
	for i := range n {
		fmt.Fprintf(&text, "%d,free/c%d,1\n", i/7, i%(2*maxSeen))
	}
	path := write(t, text.String())
	o := Options{Reorder: time.Second}
	s, err := Scan(t.Context(), path, o)
	require.NoError(t, err)
	r, err := Open(path, s, o)
	require.NoError(t, err)
	defer r.Close()
	var kept [][]string
	for {
		req, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		kept = append(kept, req.Class)
		require.LessOrEqual(t, len(r.names.seen), maxSeen)
	}
	require.Len(t, kept, n)
	for i, class := range kept {
		require.Equal(t, []string{"free", fmt.Sprintf("c%d", i%(2*maxSeen))}, class)
		require.Equal(t, len(class), cap(class), "an append would write into another request's class")
	}
}

func TestReaderSeesThatTheFileChanged(t *testing.T) {
	log := logOf("10:05:03", "10:05:04", "10:05:05")
	path := write(t, log)
	s, err := Scan(t.Context(), path, Options{})
	require.NoError(t, err)
	for _, c := range []struct{ name, text, want string }{
		{"longer is fine", log + "no log line", ""},
		{"shorter", log[:100], "trace: T: 100 bytes, but 188 when it was checked: it must not change while it is read"},
		{"another format", "time,class,cost\n" + log, "trace: T: now of format csv, but access log when it was checked: it must not change while it is read"},
		{"a broken line", "x" + strings.Replace(log, "c2 -", "c2-x", 1), `trace: T:2: "c2-x - [17/May/2015:10:05:04 +0000] \"GET /a/b HTTP/1.1\" 200 10": expected ` + wantLine},
		{"fewer lines", strings.Replace(log, "\nc2 -", " c2 -", 1), "trace: T: 2 requests, but 3 when it was checked: it must not change while it is read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			r, err := Open(path, s, Options{})
			if err == nil {
				defer r.Close()
				for ok := true; ok && err == nil; {
					_, ok, err = r.Next()
				}
				_, ok, again := r.Next()
				assert.False(t, ok)
				assert.Equal(t, err, again, "errors stay")
			}
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, c.want, strings.ReplaceAll(err.Error(), path, "T"))
		})
	}
	_, err = Open(path, Summary{}, Options{})
	assert.ErrorContains(t, err, "the summary is empty")
}

func TestOffsetAndClose(t *testing.T) {
	path := write(t, zip(t, logOf("10:05:03", "10:05:04")))
	s, err := Scan(t.Context(), path, Options{})
	require.NoError(t, err)
	r, err := Open(path, s, Options{})
	require.NoError(t, err)
	_, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, s.Bytes, r.Offset())
	require.NoError(t, r.Close())
	_, ok, err = r.Next()
	assert.False(t, ok)
	assert.ErrorIs(t, err, os.ErrClosed)
}

func TestNextDoesNotAllocate(t *testing.T) {
	text := []byte("time,class,cost\n")
	for i := range 50_000 {
		text = fmt.Appendf(text, "%d.%d,free/c%d,1\n", i/10, i%10, i%100)
	}
	src, err := newLines(t.Context(), "T", bytes.NewReader(text))
	require.NoError(t, err)
	r, err := newReader(src, Summary{Format: FormatCSV, Lines: 50_000}, Options{Reorder: 10 * time.Second})
	require.NoError(t, err)
	for range 1000 {
		_, _, _ = r.Next()
	}
	assert.Zero(t, testing.AllocsPerRun(10_000, func() { _, _, _ = r.Next() }))
}

// The traces that the examples use, where they are at hand.
func TestRealTraces(t *testing.T) {
	for _, c := range []struct {
		file  string
		lines int64
		span  time.Duration
	}{
		{"access.log", 5000, 41*time.Hour + time.Minute},
		{"llm_tokens.csv", 15461, 1799_899_351 * time.Microsecond},
	} {
		t.Run(c.file, func(t *testing.T) {
			path := "../../../shared/data/" + c.file
			if _, err := os.Stat(path); err != nil {
				t.Skip(err)
			}
			o := Options{By: ByPrefix, Cost: CountBytes, Reorder: 2 * time.Minute}
			s, err := Scan(t.Context(), path, o)
			require.NoError(t, err)
			assert.Equal(t, c.lines, s.Lines)
			assert.Equal(t, c.span, s.Span)
			text, late := play(t, path, o)
			assert.EqualValues(t, c.lines, strings.Count(text, "\n"))
			assert.Equal(t, "0 []", late)
		})
	}
}

// play reads a trace to its end, checks the laws, and returns a line for each
// request, and what Late says.
func play(t *testing.T, path string, o Options) (requests, late string) {
	t.Helper()
	s, err := Scan(t.Context(), path, o)
	require.NoError(t, err)
	r, err := Open(path, s, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var b strings.Builder
	var before time.Duration
	var n int64
	for {
		req, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		n++
		require.GreaterOrEqual(t, req.At, before, "law 1")
		require.LessOrEqual(t, req.At, s.Span, "law 1")
		require.GreaterOrEqual(t, req.Cost, int64(1), "law 2")
		require.NotEmpty(t, req.Class, "law 2")
		before = req.At
		fmt.Fprintf(&b, "%v %s %d\n", req.At, strings.Join(req.Class, "|"), req.Cost)
	}
	require.Equal(t, s.Lines, n, "law 2")
	require.Equal(t, s.First, time.Unix(0, r.origin).UTC(), "Scan found another first request than the reader")
	require.Equal(t, s.Bytes, r.Offset())
	count, lines := r.Late()
	return b.String(), fmt.Sprint(count, " ", lines)
}
