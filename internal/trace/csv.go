package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// csv parses lines of time, class and cost.
type csv struct {
	at     [3]int // which field is time, class and cost
	fields [][]byte
	more   int    // fields beyond the most that are kept
	text   []byte // fields that were quoted, taken out of their quotes
}

var columns = [3]string{"time", "class", "cost"}

func (*csv) format() string { return FormatCSV }

// parseHeader reads the first line.
func parseHeader(line []byte) (*csv, error) {
	c := new(csv)
	if err := c.split(line); err != nil {
		return nil, err
	}
	var faults []string
	for _, field := range c.fields {
		if !slices.Contains(columns[:], string(field)) && len(faults) < 3 {
			faults = append(faults, fmt.Sprintf("unknown column %q", clip(field)))
		}
	}
	for i, name := range columns {
		var found int
		for j, field := range c.fields {
			if string(field) == name {
				c.at[i] = j
				found++
			}
		}
		switch {
		case found == 0:
			faults = append(faults, fmt.Sprintf("no column %q", name))
		case found > 1:
			faults = append(faults, fmt.Sprintf("%d columns %q", found, name))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("header %q: %s; expected time,class,cost in any order", clip(line), strings.Join(faults, ", "))
	}
	return c, nil
}

func (c *csv) parse(line []byte) (record, error) {
	if err := c.split(line); err != nil {
		return record{}, err
	}
	if len(c.fields) != len(columns) {
		return record{}, fmt.Errorf("%q: %d fields, expected %d as in the header", clip(line), len(c.fields)+c.more, len(columns))
	}
	at, class, cost := c.fields[c.at[0]], c.fields[c.at[1]], c.fields[c.at[2]]
	rec := record{class: class}
	var ok bool
	if rec.at, ok = parseSeconds(at); !ok {
		return record{}, fmt.Errorf("time %q: expected seconds as a plain decimal from 0 to %d, such as 12.5", clip(at), int64(maxSeconds))
	}
	if rec.names, ok = countNames(class); !ok {
		return record{}, fmt.Errorf("class %q: expected names between single slashes, such as free/alice", clip(class))
	}
	if rec.cost, ok = parseWhole(cost); !ok || rec.cost < 1 {
		return record{}, fmt.Errorf("cost %q: expected a whole number of at least 1", clip(cost))
	}
	return rec, nil
}

// maxFields are kept of a line: more are wrong whatever they are.
const maxFields = 64

// split fills fields. A field in quotes may have commas in it, and "" for a
// quote, but must end on its line.
func (c *csv) split(line []byte) error {
	c.fields, c.more, c.text = c.fields[:0], 0, c.text[:0]
	for {
		if len(c.fields) == maxFields {
			c.more = 1 + bytes.Count(line, []byte{','})
			return nil
		}
		if len(line) > 0 && line[0] == '"' {
			field, rest, ok := c.unquote(line[1:])
			if !ok {
				return fmt.Errorf("%q: expected a closing quote, then a comma or the end of the line", clip(line))
			}
			c.fields = append(c.fields, field)
			if len(rest) == 0 {
				return nil
			}
			line = rest[1:]
			continue
		}
		comma := bytes.IndexByte(line, ',')
		if comma < 0 {
			c.fields = append(c.fields, line)
			return nil
		}
		c.fields = append(c.fields, line[:comma])
		line = line[comma+1:]
	}
}

func (c *csv) unquote(b []byte) (field, rest []byte, ok bool) {
	begin := len(c.text)
	for {
		quote := bytes.IndexByte(b, '"')
		if quote < 0 {
			return nil, nil, false
		}
		c.text = append(c.text, b[:quote]...)
		b = b[quote+1:]
		if len(b) > 0 && b[0] == '"' {
			c.text = append(c.text, '"')
			b = b[1:]
			continue
		}
		return c.text[begin:], b, len(b) == 0 || b[0] == ','
	}
}

// maxSeconds is what int64 nanoseconds hold: 292 years. Milliseconds since 1970
// are beyond it, so that mistake is seen.
const maxSeconds = 9223372035

// parseSeconds reads decimal seconds as nanoseconds without a float on the way.
// Digits beyond them, which are the noise of somebody's float, are rounded.
func parseSeconds(b []byte) (int64, bool) {
	point := 0
	for point < len(b) && b[point] != '.' {
		point++
	}
	whole, fraction := b[:point], b[min(point+1, len(b)):]
	if len(whole)+len(fraction) == 0 {
		return 0, false
	}
	var seconds int64
	if len(whole) > 0 {
		var ok bool
		if seconds, ok = parseWhole(whole); !ok || seconds > maxSeconds {
			return 0, false
		}
	}
	var ns, up int64
	unit := int64(1e8)
	for i, c := range fraction {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		ns += int64(c) * unit
		unit /= 10
		if i == 9 && c >= 5 {
			up = 1
		}
	}
	return seconds*1e9 + ns + up, true
}
