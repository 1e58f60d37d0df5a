package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseByAndCost(t *testing.T) {
	for _, by := range []By{ByClient, ByUser, ByPrefix} {
		got, err := ParseBy(by.String())
		require.NoError(t, err)
		assert.Equal(t, by, got)
	}
	for _, cost := range []CostBy{CountRequests, CountBytes} {
		got, err := ParseCost(cost.String())
		require.NoError(t, err)
		assert.Equal(t, cost, got)
	}
	_, err := ParseBy("Client")
	assert.EqualError(t, err, `trace: class by "Client": expected client, user or prefix`)
	_, err = ParseCost("2")
	assert.EqualError(t, err, `trace: cost by "2": expected 1 or bytes`)
	assert.Equal(t, "By(9) CostBy(-1)", fmt.Sprint(By(9), " ", CostBy(-1)))
}

func TestOptionsAreChecked(t *testing.T) {
	o := Options{By: 3, Cost: -1, Reorder: -time.Second, MaxHeld: -1}
	const want = `trace: options: By(3): expected ByClient, ByUser or ByPrefix
trace: options: CostBy(-1): expected CountRequests or CountBytes
trace: options: reorder -1s: expected 0 or more
trace: options: -1 lines held at most: expected 1 or more, or 0 for 262144`
	_, err := Scan(t.Context(), "none", o)
	assert.EqualError(t, err, want)
	_, err = Open("none", Summary{Format: FormatCSV}, o)
	assert.EqualError(t, err, want)
}

func TestScanSummary(t *testing.T) {
	at := func(s string) time.Time {
		got, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		return got
	}
	log := logOf("10:05:03", "10:05:01", "10:05:09")
	table := "cost,time,class\n2,1.5,free/alice\n1,0.25,acme\n"
	for _, c := range []struct {
		name, text string
		want       Summary
	}{
		{"log", log, Summary{
			Format: FormatAccessLog, Lines: 3, Bytes: int64(len(log)), Span: 9 * time.Second,
			First: at("2015-05-17T10:05:01Z"), Last: at("2015-05-17T10:05:09Z"),
		}},
		{"csv", table, Summary{
			Format: FormatCSV, Lines: 2, Bytes: int64(len(table)), Span: 1250 * time.Millisecond,
			First: at("1970-01-01T00:00:00.25Z"), Last: at("1970-01-01T00:00:01.5Z"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Scan(t.Context(), write(t, c.text), Options{Reorder: time.Minute})
			require.NoError(t, err)
			assert.Equal(t, c.want, s)
		})
	}
}

func TestErrorsInFull(t *testing.T) {
	const ok = "h - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n"
	long := strings.Repeat("x", maxLine+1)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", `trace: T: empty: expected ` + wantFormats},
		{"blank", "\n\r\n\n", `trace: T: empty: expected ` + wantFormats},
		{"header alone", "time,class,cost\n", `trace: T: no requests below the header`},
		{
			"neither", "\n<html>\n",
			`trace: T:2: "<html>" is of no known format: expected an access log (host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326) or a CSV with the header time,class,cost; gzip is fine`,
		},
		{"no header", "0,a,1\n1,a,1\n", `trace: T:1: "0,a,1" is of no known format: expected ` + wantFormats},
		{"json", `{"at": "x", "l": [1, 2]}`, `trace: T:1: "{\"at\": \"x\", \"l\": [1, 2]}" is of no known format: expected ` + wantFormats},
		{"binary", "\x00\xff\xfe", `trace: T:1: "\x00\xff\xfe" is of no known format: expected ` + wantFormats},
		{"first line long", long, `trace: T:1: "` + long[:80] + `…": expected lines of at most 1 MiB`},
		{
			"unknown column", "time,Class,cost\n",
			`trace: T:1: header "time,Class,cost": unknown column "Class", no column "class"; expected time,class,cost in any order`,
		},
		{"spaces", "time, class, cost\n", `trace: T:1: header "time, class, cost": unknown column " class", unknown column " cost", no column "class", no column "cost"; expected time,class,cost in any order`},
		{"semicolons", "time;class;cost\n", `trace: T:1: header "time;class;cost": unknown column "time;class;cost", no column "time", no column "class", no column "cost"; expected time,class,cost in any order`},
		{"twice", "time,time,class,cost\n", `trace: T:1: header "time,time,class,cost": 2 columns "time"; expected time,class,cost in any order`},
		{"one more", "time,class,cost,note\n", `trace: T:1: header "time,class,cost,note": unknown column "note"; expected time,class,cost in any order`},
		{
			"csv lines", "time,class,cost\n-1,a,1\n1e3,a,1\n9223372036,a,1\n.,a,1\n1,,1\n1,a//b,1\n1,/a,1\n1,a/,0\n1,a,0\n1,a,1.5\n1,a\n1,\"a,1\n2,a,1\n",
			`trace: T:2: time "-1": expected seconds as a plain decimal from 0 to 9223372035, such as 12.5
trace: T:3: time "1e3": expected seconds as a plain decimal from 0 to 9223372035, such as 12.5
trace: T:4: time "9223372036": expected seconds as a plain decimal from 0 to 9223372035, such as 12.5
trace: T:5: time ".": expected seconds as a plain decimal from 0 to 9223372035, such as 12.5
trace: T:6: class "": expected names between single slashes, such as free/alice
trace: T:7: class "a//b": expected names between single slashes, such as free/alice
trace: T:8: class "/a": expected names between single slashes, such as free/alice
trace: T:9: class "a/": expected names between single slashes, such as free/alice
trace: T:10: cost "0": expected a whole number of at least 1
trace: T:11: cost "1.5": expected a whole number of at least 1
… and 2 more`,
		},
		{
			"csv fields", "time,class,cost\n1,a\n" + strings.Repeat(",", 99) + "\n1,\"a,1\n1,\"a\"b,1\n1,a,9223372036854775808\n",
			`trace: T:2: "1,a": 2 fields, expected 3 as in the header
trace: T:3: "` + strings.Repeat(",", 80) + `…": 100 fields, expected 3 as in the header
trace: T:4: "\"a,1": expected a closing quote, then a comma or the end of the line
trace: T:5: "\"a\"b,1": expected a closing quote, then a comma or the end of the line
trace: T:6: cost "9223372036854775808": expected a whole number of at least 1`,
		},
		{
			"log lines", ok + "rubbish\n" +
				"h - - [17/Foo/2015:10:05:03 +0000] \"GET /\" 200 1\n" +
				"h - - [31/Apr/2015:10:05:03 +0000] \"GET /\" 200 1\n" +
				"h - - [17/May/2015:24:05:03 +0000] \"GET /\" 200 1\n" +
				"h - - [17/May/2015:10:05:03 0000] \"GET /\" 200 1\n" +
				"h - - [17/May/2015:10:05:03 +0000] GET / 200 1\n" +
				"h - - [17/May/2015:10:05:03 +0000] \"GET /\\\" 200 1\n" +
				"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 2000 1\n" +
				"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1k\n" +
				"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200\n",
			`trace: T:2: "rubbish": expected host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326
trace: T:3: time "[17/Foo/2015:10:05:03 +0000]": no such month, expected such as [17/May/2015:10:05:03 +0000]
trace: T:4: time "[31/Apr/2015:10:05:03 +0000]": no such day, expected such as [17/May/2015:10:05:03 +0000]
trace: T:5: time "[17/May/2015:24:05:03 +0000]": no such time of day, expected such as [17/May/2015:10:05:03 +0000]
trace: T:6: time "[17/May/2015:10:05:03 0000]": not a time, expected such as [17/May/2015:10:05:03 +0000]
trace: T:7: after the time " GET / 200 1": expected a request, such as "GET / HTTP/1.1"
trace: T:8: request "GET /\\\" 200 1": expected a closing quote
trace: T:9: status "2000": expected three digits
trace: T:10: size "1k": expected a whole number of bytes, or -
trace: T:11: after the request " 200": expected status and size, such as 200 2326`,
		},
		{
			"log lines, the first too", "h - - [17/Foo/2015:10:05:03 +0000] \"GET /\" 200 1\nrubbish\n",
			`trace: T:1: time "[17/Foo/2015:10:05:03 +0000]": no such month, expected such as [17/May/2015:10:05:03 +0000]
trace: T:2: "rubbish": expected ` + wantLine,
		},
		{
			"more log lines", ok +
				"h - - [17/May/1969:10:05:03 +0000] \"GET /\" 200 1\n" +
				"h - - [17/May/2015:10:05:03 +9900] \"GET /\" 200 1\n" +
				"h - - [17/May/2015:10:05\n" +
				"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 9223372036854775808\n" +
				"h - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1\n" +
				"www:80 198.18.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1\n" +
				long + "\n" + ok + "last",
			`trace: T:2: time "[17/May/1969:10:05:03 +0000]": year not from 1970 to 2261, expected such as [17/May/2015:10:05:03 +0000]
trace: T:3: time "[17/May/2015:10:05:03 +9900]": no such zone, expected such as [17/May/2015:10:05:03 +0000]
trace: T:4: time "[17/May/2015:10:05": cut short, expected such as [17/May/2015:10:05:03 +0000]
trace: T:5: size "9223372036854775808": expected a whole number of bytes, or -
trace: T:6: "h - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1": expected host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326
trace: T:7: "www:80" is a field too many before the time (a virtual host?): expected host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326
trace: T:8: "` + long[:80] + `…": expected lines of at most 1 MiB
trace: T:10: "last": expected host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326`,
		},
		{"virtual host first", "www:80 198.18.0.1 - joe [17/May/2015:10:05:03 +0000] \"GET /\" 200 1\n", `trace: T:1: "www:80" is a field too many before the time (a virtual host?): expected ` + wantLine},
		{"clipped between characters", ok + strings.Repeat("é", 30) + "x" + strings.Repeat("é", 30), `trace: T:2: "` + strings.Repeat("é", 30) + "x" + strings.Repeat("é", 9) + `…": expected ` + wantLine},
		{"gzip header", "\x1f\x8b\x08\x00", `trace: T: after line 0: gzip data cut short: unexpected EOF`},
		{"gzip cut", zip(t, strings.Repeat(ok, 500))[:20], `trace: T: after line 0: gzip data cut short: unexpected EOF`},
		{"gzip damaged", zip(t, ok)[:len(zip(t, ok))-8] + "12345678", `trace: T: after line 1: gzip: invalid checksum`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.text)
			s, err := Scan(t.Context(), path, Options{Cost: CountBytes})
			require.Error(t, err)
			assert.Zero(t, s)
			got := strings.ReplaceAll(err.Error(), path, "T")
			assert.Equal(t, c.want, got)
		})
	}
}

func TestErrorsAsAndIs(t *testing.T) {
	path := write(t, "time,class,cost\nx,a,1\n"+strings.Repeat("1,a,0\n", 20))
	_, err := Scan(t.Context(), path, Options{})
	bad, ok := errors.AsType[*LineErrors](err)
	require.True(t, ok)
	assert.Len(t, bad.Lines, 10)
	assert.EqualValues(t, 11, bad.More)
	line, ok := errors.AsType[*LineError](err)
	require.True(t, ok)
	assert.Equal(t, 2, line.Line)
	assert.Equal(t, path, line.File)

	_, err = Scan(t.Context(), filepath.Join(t.TempDir(), "none"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Regexp(t, "^trace: open .*none: ", err.Error())

	_, err = Scan(t.Context(), t.TempDir(), Options{})
	assert.ErrorContains(t, err, "not a regular file")

	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err = Scan(ctx, path, Options{})
	assert.ErrorIs(t, err, stop)
}

// A long file is left in the middle when the context ends.
func TestScanStopsInTheMiddle(t *testing.T) {
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	in := readerFunc(func(b []byte) (int, error) {
		cancel(stop) // from now on
		return copy(b, "time,class,cost\n0,a,1\n"), nil
	})
	src, err := newLines(ctx, "T", in)
	if err == nil {
		_, err = scan(src, Options{})
	}
	require.ErrorIs(t, err, stop)
	assert.Contains(t, err.Error(), "trace: T: after line ")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func zip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// logOf is a log with a line for each time of day, from clients c1, c2, ...
func logOf(times ...string) string {
	var b strings.Builder
	for i, at := range times {
		fmt.Fprintf(&b, "c%d - - [17/May/2015:%s +0000] \"GET /a/b HTTP/1.1\" 200 %d\n", i+1, at, 10*i)
	}
	return b.String()
}
