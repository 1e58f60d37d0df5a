package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseSeconds(t *testing.T) {
	for _, c := range []struct {
		text string
		ns   int64
		ok   bool
	}{
		{"0", 0, true},
		{"12", 12e9, true},
		{"12.5", 12_500_000_000, true},
		{"12.", 12e9, true},
		{".5", 5e8, true},
		{"007.000000001", 7_000_000_001, true},
		{"0.1", 100_000_000, true},
		{"0.30000000000000004", 300_000_000, true}, // 0.1 + 0.2, as floats print it
		{"0.7999999999999999", 800_000_000, true},
		{"0.9999999995", 1_000_000_000, true},
		{"0.0000000004" + strings.Repeat("9", 100), 0, true},
		{"1700000000.123456789", 1_700_000_000_123_456_789, true},
		{"9223372035.9999999999", 9_223_372_036_000_000_000, true},
		{"9223372036", 0, false},
		{"99999999999999999999", 0, false},
		{"", 0, false},
		{".", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{" 1", 0, false},
		{"1.5s", 0, false},
		{"1.2.3", 0, false},
		{"1,5", 0, false},
		{"1e3", 0, false},
		{"NaN", 0, false},
		{"0.00000000000x", 0, false},
	} {
		ns, ok := parseSeconds([]byte(c.text))
		assert.Equal(t, c.ok, ok, c.text)
		assert.Equal(t, c.ns, ns, c.text)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string // nil: an error
	}{
		{"", []string{""}},
		{",", []string{"", ""}},
		{"a,b,c", []string{"a", "b", "c"}},
		{`"a","b",`, []string{"a", "b", ""}},
		{`"a,b","""",""`, []string{"a,b", `"`, ""}},
		{`a"b,c`, []string{`a"b`, "c"}},
		{`"a`, nil},
		{`"a" ,b`, nil},
		{`"a""`, nil},
	} {
		var p csv
		err := p.split([]byte(c.line))
		if c.want == nil {
			assert.Error(t, err, c.line)
			continue
		}
		var got []string
		for _, f := range p.fields {
			got = append(got, string(f))
		}
		assert.NoError(t, err, c.line)
		assert.Equal(t, c.want, got, c.line)
	}
}

// A line of many fields costs no memory for each.
func TestSplitIsBounded(t *testing.T) {
	for _, field := range []string{",", `"",`} {
		var p csv
		line := strings.Repeat(field, 100_000)
		assert.NoError(t, p.split([]byte(line)))
		assert.Len(t, p.fields, maxFields)
		assert.Equal(t, 100_001, len(p.fields)+p.more)
	}
}
