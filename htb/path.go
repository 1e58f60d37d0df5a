package htb

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RootPath is what the root is called where a path is written out.
const RootPath = "global"

// MaxName is the longest name of a class, in bytes.
const MaxName = 256

// Path writes the names of a class and of those above it as one line:
// "free/alice", or "global" for none. Names come from outside, so whatever would
// make two classes look alike, or upset a terminal, is percent-encoded: "/", "%",
// what does not print, bytes that are not UTF-8, and the first letter of a name
// that is "*" or, alone, "global".
func Path(names ...string) string {
	if len(names) == 0 {
		return RootPath
	}
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = escape(name, len(names) == 1)
	}
	return strings.Join(escaped, "/")
}

// escape writes one name; top says that it stands alone.
func escape(name string, top bool) string {
	var b strings.Builder
	reserved := name == Template || top && name == RootPath
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		plain := unicode.IsPrint(r) && r != '/' && r != '%' && (r != utf8.RuneError || n > 1) && (i > 0 || !reserved)
		for range n {
			if plain {
				b.WriteByte(name[i])
			} else {
				fmt.Fprintf(&b, "%%%02X", name[i])
			}
			i++
		}
	}
	return b.String()
}

// ParsePath is the inverse of [Path]: the names that a path consists of, none
// for "global". An empty path or name is an error.
func ParsePath(path string) ([]string, error) {
	if path == RootPath {
		return nil, nil
	}
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = unescape(name)
		if err := checkName(names[i]); err != nil {
			return nil, fmt.Errorf("htb: path %.80q: %w", path, err)
		}
	}
	return names, nil
}

// unescape turns %XX into the byte it stands for; any other % stands for itself.
func unescape(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '%' && i+2 < len(name) {
			hi, lo := unhex(name[i+1]), unhex(name[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// checkName says why name cannot be the name of a class.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty: a name has 1 to %d bytes", ErrName, MaxName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, the most is %d", ErrName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %.40q is not valid UTF-8", ErrName, name)
	}
	return nil
}
