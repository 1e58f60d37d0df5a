package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAccessLogLine(t *testing.T) {
	const at = ` [17/May/2015:10:05:03 +0000] `
	for _, c := range []struct {
		line                 string
		client, user, prefix string
		bytes                int64
	}{
		{`198.18.0.1 - -` + at + `"GET /images/x.png HTTP/1.1" 200 2326 "-" "agent"`, "198.18.0.1", "-", "images", 2326},
		{`::1 - frank` + at + `"GET / HTTP/1.0" 304 -`, "::1", "frank", "/", 1},
		{`h id frank` + at + `"GET /a?x=/b HTTP/1.0" 304 0`, "h", "frank", "a", 1},
		{`h - Anna Maria` + at + `"GET /a#b" 200 9223372036854775807`, "h", "Anna Maria", "a", 1<<63 - 1},
		{`h - x [y] ` + at + `"GET /a/b" - 5 more than combined has`, "h", "x [y] ", "a", 5},
		{`h - x [17/May` + at + `"GET /a/b" - 5`, "h", "x [17/May", "a", 5},
		{`h -  [17/May/2015:10:05:03 +0000] "GET /a/b" 200 5`, "h", "-", "a", 5},
		{`h - - x` + at + `"GET /a/b" 200 5`, "h", "- x", "a", 5},
		{`a/b - c/d` + at + `"GET //wp//x HTTP/1.1" 200 5`, "a/b", "c/d", "wp", 5},
		{`h - -` + at + `"POST http://site.example/api/x HTTP/1.1" 200 5`, "h", "-", "api", 5},
		{`h - -` + at + `"GET http://site.example HTTP/1.1" 200 5`, "h", "-", "/", 5},
		{`h - -` + at + `"GET http://site.example?a/b HTTP/1.1" 200 5`, "h", "-", "/", 5},
		{`h - -` + at + `"GET http:// HTTP/1.1" 200 5`, "h", "-", "-", 5},
		{`h - -` + at + `"CONNECT site.example:443 HTTP/1.1" 200 5`, "h", "-", "-", 5},
		{`h - -` + at + `"OPTIONS * HTTP/1.1" 200 5`, "h", "-", "-", 5},
		{`h - -` + at + `"M-SEARCH /a%2Fb/c HTTP/1.1" 200 5`, "h", "-", "a%2Fb", 5},
		{`h - -` + at + `"-" 408 -`, "h", "-", "-", 1},
		{`h - -` + at + `"" 400 0`, "h", "-", "-", 1},
		{`h - -` + at + `"GET" 400 0`, "h", "-", "-", 1},
		{`h - -` + at + `"GET " 400 0`, "h", "-", "-", 1},
		{`h - -` + at + `" /a" 400 0`, "h", "-", "-", 1},
		{`h - -` + at + `"\x16\x03 /a" 400 0`, "h", "-", "-", 1},
		{`h - -` + at + `"GET /a\"b/c\\" 200 5`, "h", "-", `a\"b`, 5},
		{"\xff - -" + at + "\"GET /\xfe/x\" 200 5", "\xff", "-", "\xfe", 5},
	} {
		t.Run(c.line, func(t *testing.T) {
			for by, want := range []string{ByClient: c.client, ByUser: c.user, ByPrefix: c.prefix} {
				p := accessLog{by: By(by), cost: CountBytes}
				rec, err := p.parse([]byte(c.line))
				require.NoError(t, err)
				assert.Equal(t, want, string(rec.class), By(by))
				assert.Equal(t, 1, rec.names)
				assert.Equal(t, c.bytes, rec.cost)
				assert.Equal(t, time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC).UnixNano(), rec.at)
				rec, err = (&accessLog{by: By(by)}).parse([]byte(c.line))
				require.NoError(t, err)
				assert.EqualValues(t, 1, rec.cost)
			}
		})
	}
}

// Every day of the years that can be counted, against the time package.
func TestParseTimeEveryDay(t *testing.T) {
	const layout = "[02/Jan/2006:15:04:05 -0700]"
	zones := []*time.Location{time.UTC, time.FixedZone("", 5*3600+1800), time.FixedZone("", -11*3600-900)}
	end := time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
	step := 24*time.Hour + 61*time.Second
	for day, i := time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), 0; day.Before(end.Add(-step)); day, i = day.Add(step), i+1 {
		text := day.In(zones[i%3]).Format(layout)
		at, why := parseTime([]byte(text))
		require.Empty(t, why, text)
		require.Equal(t, day.UnixNano(), at, text)
	}
}

func TestParseTimeRefuses(t *testing.T) {
	const good = "[29/Feb/2016:23:59:60 -2359]"
	_, why := parseTime([]byte(good))
	require.Empty(t, why)
	for _, c := range []struct{ text, why string }{
		{"[29/Feb/2015:23:59:60 -2359]", "no such day"},
		{"[29/Feb/2100:23:59:60 -2359]", "no such day"},
		{"[00/Feb/2016:23:59:60 -2359]", "no such day"},
		{"[2x/Feb/2016:23:59:60 -2359]", "no such day"},
		{"[29/feb/2016:23:59:60 -2359]", "no such month"},
		{"[29/Feb/2262:23:59:60 -2359]", "year not from 1970 to 2261"},
		{"[29/Feb/201x:23:59:60 -2359]", "year not from 1970 to 2261"},
		{"[29/Feb/2016:24:59:60 -2359]", "no such time of day"},
		{"[29/Feb/2016:23:60:60 -2359]", "no such time of day"},
		{"[29/Feb/2016:23:59:61 -2359]", "no such time of day"},
		{"[29/Feb/2016:23:59:60 -2360]", "no such zone"},
		{"[29/Feb/2016:23:59:60  2359]", "no such zone"},
		{"[29/Feb/2016:23:59:60 -2359", "cut short"},
	} {
		_, why := parseTime([]byte(c.text))
		assert.Equal(t, c.why, why, c.text)
	}
	// No byte outside those of a time is let through in its place.
	for i := range good {
		_, why := parseTime(append(append([]byte(good[:i]), 'x'), good[i+1:]...))
		assert.NotEmpty(t, why, i)
	}
}
