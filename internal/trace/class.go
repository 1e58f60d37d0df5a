package trace

import "bytes"

// class is that of a record, safe to keep.
type class struct {
	names []string
	size  int // the record's
}

// names turns the class of a record into strings, and hands out the same one
// again for a class that it has seen lately.
type names struct {
	paths bool // classes are paths; else each is one name, slashes and all
	seen  map[string]*class
}

// Enough for the clients of a busy site, at most 4096 * 512 bytes of keys.
const (
	maxSeen    = 4096
	maxSeenLen = 512
)

func (n *names) class(rec record) *class {
	if c, ok := n.seen[string(rec.class)]; ok {
		return c
	}
	key := string(rec.class)
	c := &class{size: rec.size()}
	if n.paths {
		c.names = splitPath(key, rec.names)
	} else {
		c.names = []string{key}
	}
	if len(key) <= maxSeenLen {
		switch {
		case n.seen == nil:
			n.seen = make(map[string]*class)
		case len(n.seen) >= maxSeen:
			// Those that matter are back within a few lines.
			clear(n.seen)
		}
		n.seen[key] = c
	}
	return c
}

// countNames counts the names of a path; not ok when one of them is empty.
func countNames(path []byte) (int, bool) {
	n := 1
	for {
		i := bytes.IndexByte(path, '/')
		if i < 0 {
			return n, len(path) > 0
		}
		if i == 0 {
			return 0, false
		}
		n++
		path = path[i+1:]
	}
}

// splitPath splits at slashes first and decodes then, so that a%2Fb is one name.
func splitPath(path string, n int) []string {
	class := make([]string, 0, n)
	begin := 0
	for i := 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			class = append(class, unescape(path[begin:i]))
			begin = i + 1
		}
	}
	return class
}

// unescape decodes %XX. A percent sign without two hex digits is one.
func unescape(s string) string {
	var b []byte
	done := 0
	for i := 0; i+2 < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		hi, lo := hex(s[i+1]), hex(s[i+2])
		if hi < 0 || lo < 0 {
			continue
		}
		b = append(append(b, s[done:i]...), byte(hi<<4|lo))
		i += 2
		done = i + 1
	}
	if b == nil {
		return s
	}
	return string(append(b, s[done:]...))
}

func hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
