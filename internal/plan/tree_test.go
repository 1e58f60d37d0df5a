package plan

import (
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

// Any name that a class may have is read as it was written.
func TestNamesAreReadAsWritten(t *testing.T) {
	names := []string{
		"\x7f", "\u0085", "\u0080\u009f", "\ufffe", "\uffff", "\ufeff", "\u2028", "\x00\x1b", "a\tb", "<&>", `"\`, "日本", "e\u0301", "😀",
		strings.Repeat("\x01", htb.MaxName), strings.Repeat("😀", htb.MaxName/4), strings.Repeat("\u0085", htb.MaxName/2),
		"null", "~", "=", "? x", "1e3", " ",
	}
	draw := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var b strings.Builder
		for range 1 + draw.IntN(10) {
			b.WriteRune(rune(draw.IntN([]int{0x100, 0x3000, 0x110000}[draw.IntN(3)])))
		}
		names = append(names, strings.ToValidUTF8(b.String(), "x"))
	}
	for _, name := range names {
		r := NewRecorder()
		for i := range 20 {
			r.Add(time.Duration(i)*time.Second, []string{name, "leaf"}, 1)
			r.Add(time.Duration(i)*time.Second, []string{"inner", name}, 1)
		}
		p, err := r.Make(t.Context(), options(), 20*time.Second, nil)
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, p.Tree(&b, "x", "requests"), "%q", name)
		f, err := config.Parse("x", []byte(b.String()))
		require.NoError(t, err)
		var got []string
		for _, c := range f.Root.Children {
			got = append(got, c.Name, c.Children[0].Name)
		}
		require.ElementsMatch(t, []string{name, "leaf", "inner", name}, got, "%s", b.String())
	}
}

// A name that no class above others may have is an error, not another class.
func TestInnerNamesThatCannotBe(t *testing.T) {
	for _, name := range []string{"\xff", "*", "global", strings.Repeat("x", htb.MaxName+1)} {
		r := NewRecorder()
		for i := range 20 {
			r.Add(time.Duration(i)*time.Second, []string{name, "x"}, 1)
		}
		p, err := r.Make(t.Context(), options(), 20*time.Second, nil)
		require.NoError(t, err)
		require.ErrorContains(t, p.Tree(io.Discard, "x", "requests"), "no tree can have the class", "%q", name)
	}
}

// Sums stop at the largest number there is, and what takes no time has no average.
func TestSumsAndNoTime(t *testing.T) {
	r := NewRecorder()
	for _, name := range []string{"a", "b", "c"} {
		r.Add(0, []string{name}, math.MaxInt64/2)
	}
	o := options()
	o.Few = 0
	p, err := r.Make(t.Context(), o, 0, nil)
	require.NoError(t, err)
	root := &node{name: "global"}
	for i := range p.Classes {
		root.children = append(root.children, &node{class: &p.Classes[i]})
	}
	root.add()
	require.Equal(t, int64(math.MaxInt64), root.burst)
	r = NewRecorder()
	r.Add(0, []string{"a"}, 1)
	p, err = r.Make(t.Context(), o, 0, nil)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, p.Tree(&b, "x", "requests"))
	require.Contains(t, b.String(), "# 1 requests, the largest 1\n")
	c := newClass(nil, 0, &recorded{requests: []request{{0, math.MaxInt64}, {0, 5}}})
	require.Equal(t, int64(math.MaxInt64), c.Units)
}
