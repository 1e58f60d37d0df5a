package redisgcra

import (
	"fmt"
	"strings"
)

// Longest names, in bytes before they are encoded.
const (
	MaxName = 256      // of a tree, and of a key given to [Limiter.Allow]
	MaxPath = 16 << 10 // of a path: 8 names of 256 bytes, each byte percent-encoded
)

// Key returns the Redis key of a path in a tree, "htb:{<tree>:<path>}". In both, "%",
// "{", "}", ":" and control bytes are percent-encoded, so that no two pairs share a key
// and the braces are the only ones: the hash tag by which a cluster picks the slot is
// tree and path. An empty or over-long name is an error that wraps [ErrName].
func Key(tree, path string) (string, error) {
	if err := checkName("tree", tree, MaxName); err != nil {
		return "", err
	}
	if err := checkName("path", path, MaxPath); err != nil {
		return "", err
	}
	return prefix(tree) + encode(path) + "}", nil
}

func prefix(tree string) string { return "htb:{" + encode(tree) + ":" }

func checkName(what, name string, most int) error {
	switch {
	case name == "":
		return fmt.Errorf("redisgcra: empty %s: %w", what, ErrName)
	case len(name) > most:
		return fmt.Errorf("redisgcra: %s of %d bytes, %d at most: %w", what, len(name), most, ErrName)
	}
	return nil
}

// encode percent-encodes what has a meaning in a key, and control bytes.
func encode(name string) string {
	if strings.IndexFunc(name, special) < 0 { // most names: no copy
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < 0x80 && special(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func special(r rune) bool {
	return r < ' ' || r == 0x7f || r == '%' || r == '{' || r == '}' || r == ':'
}
