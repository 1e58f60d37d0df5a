package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClassOfAPath(t *testing.T) {
	for _, c := range []struct {
		path string
		want []string // nil: refused
	}{
		{"acme", []string{"acme"}},
		{"free/alice", []string{"free", "alice"}},
		{"a%2Fb", []string{"a/b"}},
		{"a%2fb/c%20d%", []string{"a/b", "c d%"}},
		{"100%", []string{"100%"}},
		{"%4", []string{"%4"}},
		{"%zz%41", []string{"%zzA"}},
		{"%%41", []string{"%A"}},
		{"%25%41", []string{"%A"}},
		{"%2541", []string{"%41"}},
		{"%4%31", []string{"%41"}},
		{"a%2/Fb", []string{"a%2", "Fb"}},
		{"%ff", []string{"\xff"}},
		{"é/ü", []string{"é", "ü"}},
		{"*", []string{"*"}},
		{" ", []string{" "}},
		{"", nil},
		{"/", nil},
		{"/a", nil},
		{"a/", nil},
		{"a//b", nil},
	} {
		n, ok := countNames([]byte(c.path))
		assert.Equal(t, c.want != nil, ok, c.path)
		if !ok {
			continue
		}
		rec := record{class: []byte(c.path), names: n}
		paths := names{paths: true}
		assert.Equal(t, c.want, paths.class(rec).names, c.path)
		assert.Equal(t, c.want, paths.class(rec).names, "the same again")
		var whole names
		assert.Equal(t, []string{c.path}, whole.class(rec).names, "of an access log")
	}
}
