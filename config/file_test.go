package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sluice/sluice/htb"
	"github.com/stretchr/testify/require"
)

// golden compares got with the file beside path, or rewrites it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	path = strings.TrimSuffix(path, ".yaml") + ".golden"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s: look at it, then go test ./config -update", path)
}

func each(t *testing.T, pattern string, check func(t *testing.T, name string, data []byte)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.FromSlash(pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			check(t, path, data)
		})
	}
}

// Every bad file is refused, with all its mistakes, by line.
func TestBadTrees(t *testing.T) {
	each(t, "testdata/tree/bad/*.yaml", func(t *testing.T, path string, data []byte) {
		f, err := Parse(filepath.Base(path), data)
		require.Nil(t, f)
		requireErrors(t, err)
		list := err.(Errors)
		require.LessOrEqual(t, list[len(list)-1].Line, 1+breaks(data))
		golden(t, path, err.Error()+"\n")
	})
}

func TestGoodTrees(t *testing.T) {
	each(t, "testdata/tree/good/*.yaml", func(t *testing.T, path string, data []byte) {
		f, err := Parse(filepath.Base(path), data)
		require.NoError(t, err)
		golden(t, path, printed(f))
	})
}

// printed is a tree file with its defaults filled in, a class on a line.
func printed(f *File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s, unit %s, semantics %s\n", f.Tree, f.Unit, f.Semantics)
	if f.Redis != nil {
		fmt.Fprintf(&b, "redis %+v\n", *f.Redis)
	}
	var class func(s htb.Spec, c *Class, indent string)
	class = func(s htb.Spec, c *Class, indent string) {
		fmt.Fprintf(&b, "%3d %s%s rate %v burst %d ceil %v cburst %d prio %d quantum %d", c.Line, indent, s.Name, s.Rate, s.Burst, s.Ceil, s.CBurst, s.Prio, s.Quantum)
		if len(s.Also) > 0 {
			fmt.Fprintf(&b, " also %v", s.Also)
		}
		if s.Oversubscribed {
			fmt.Fprintf(&b, " oversubscribed")
		}
		if s.Max != 0 {
			fmt.Fprintf(&b, " max %d idle %v", s.Max, s.Idle)
		}
		fmt.Fprintf(&b, " | limit %d maxWait %v pool %d remote %v sync %v\n", c.Limit, c.MaxWait, c.Pool, s.Remote, s.Sync)
		for i := range s.Children {
			// The template comes last in a resolved Spec, wherever it stood.
			class(s.Children[i], c.child(s.Children[i].Name), indent+"  ")
		}
	}
	class(f.Root.Resolved(), f.Settings, "")
	for _, w := range f.Warnings {
		fmt.Fprintf(&b, "warning: %v\n", w)
	}
	return b.String()
}

func TestBadLoads(t *testing.T) {
	each(t, "testdata/load/bad/*.yaml", func(t *testing.T, path string, data []byte) {
		l, err := ParseLoad(filepath.Base(path), data, "requests")
		require.Nil(t, l)
		requireErrors(t, err)
		list := err.(Errors)
		require.LessOrEqual(t, list[len(list)-1].Line, 1+breaks(data))
		golden(t, path, err.Error()+"\n")
	})
}

func TestGoodLoads(t *testing.T) {
	each(t, "testdata/load/good/*.yaml", func(t *testing.T, path string, data []byte) {
		l, err := ParseLoad(filepath.Base(path), data, Bytes)
		require.NoError(t, err)
		var b strings.Builder
		fmt.Fprintf(&b, "duration %v\n", l.Duration)
		for _, f := range l.Flows {
			fmt.Fprintf(&b, "%+v\n", f)
		}
		golden(t, path, b.String())
	})
}

// requireErrors holds what every error of a file keeps to.
func requireErrors(t *testing.T, err error) {
	t.Helper()
	var list Errors
	require.ErrorAs(t, err, &list)
	require.NotEmpty(t, list)
	last := 1
	for _, e := range list {
		require.NotEmpty(t, e.File)
		require.NotEmpty(t, e.Msg)
		require.NotContains(t, e.Error(), "\n")
		require.GreaterOrEqual(t, e.Line, last, "%v", e)
		last = e.Line
	}
	var one *Error
	require.ErrorAs(t, err, &one)
	require.Same(t, list[0], one)
}

func TestExamples(t *testing.T) {
	f, err := Parse("tree.yaml", ExampleTree)
	require.NoError(t, err)
	require.Empty(t, f.Warnings)
	require.Nil(t, f.Redis, "the example must run with nothing installed")
	l, err := ParseLoad("load.yaml", ExampleLoad, f.Unit)
	require.NoError(t, err)
	require.Equal(t, 20*time.Second, l.Duration)
	for _, flow := range l.Flows {
		c := f.Settings
		for _, name := range flow.Class {
			require.NotNil(t, c.child(name), "flow of %v: tree.yaml has no such class", flow.Class)
			c = c.child(name)
		}
		require.Empty(t, c.Children, "flow of %v: not a leaf", flow.Class)
	}
}

// The example of gateways loads without a warning, and its load is for it.
func TestSharedExample(t *testing.T) {
	f, err := ParseFile("shared.yaml")
	require.NoError(t, err)
	require.Empty(t, f.Warnings)
	require.Equal(t, []string{"localhost:6379"}, f.Redis.Addrs)
	require.Positive(t, f.Root.Sync)
	l, err := ParseLoadFile("shared.load.yaml", f.Unit)
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, l.Duration)
	tree, err := htb.New(f.Root)
	require.NoError(t, err)
	remote := false
	for _, flow := range l.Flows {
		_, err := tree.Leaf(flow.Class...)
		require.NoError(t, err)
		s := f.Root
		for _, name := range flow.Class {
			s = s.Children[slices.IndexFunc(s.Children, func(c htb.Spec) bool { return c.Name == name })]
		}
		remote = remote || s.Remote
		require.True(t, s.Remote || s.Sync > 0, "%v is shared", flow.Class)
	}
	require.True(t, remote)
}

func TestParseFile(t *testing.T) {
	llm, err := ParseFile("llm.yaml")
	require.NoError(t, err)
	require.Empty(t, llm.Warnings)
	f, err := ParseFile("tree.yaml")
	require.NoError(t, err)
	require.Equal(t, "api", f.Tree)
	require.Equal(t, "tree.yaml", f.Name)
	_, err = ParseFile("testdata/none.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ParseLoadFile("testdata/none.yaml", "")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ParseLoadFile("load.yaml", "requests")
	require.NoError(t, err)
}

// What htb says later on, of a class of the file, finds its line as well.
func TestPlace(t *testing.T) {
	f, err := ParseFile("tree.yaml")
	require.NoError(t, err)
	lines := strings.Split(string(ExampleTree), "\n")
	for _, step := range []struct {
		path []string
		key  string
		want string // what stands on the line
		spot string
	}{
		{nil, "", "global:", "global"},
		{nil, "rate", "rate: 1000/s", "global"},
		{nil, "burst", "global:", "global"},
		{[]string{"acme"}, "ceil", "ceil: 1000/s", "acme"},
		{[]string{"free"}, "children", "free:", "free"},
		{[]string{"free", "*"}, "burst", "burst: 20", "free/*"},
		{[]string{"free", "alice"}, "burst", "free:", "free/alice"},
	} {
		e := f.Place(htb.Mistake{Path: step.path, Key: step.key, Text: "is odd"})
		require.Contains(t, lines[e.Line-1], step.want)
		require.Equal(t, fmt.Sprintf("tree.yaml:%d: %s: is odd", e.Line, step.spot), e.Error())
	}
}

func TestLimits(t *testing.T) {
	_, err := Parse("t", make([]byte, maxFile+1))
	require.ErrorContains(t, err, "t:1: the file has 16777217 bytes, the most is 16777216")

	var b strings.Builder
	b.WriteString("tree: t\nglobal:\n  rate: 1/s\n  children:\n")
	for i := range 3 * maxErrors {
		fmt.Fprintf(&b, "    c%d: {rte: 1/s}\n", i)
	}
	start := time.Now()
	_, err = Parse("t", []byte(b.String()))
	var list Errors
	require.True(t, errors.As(err, &list))
	require.Len(t, list, maxErrors+1)
	require.Equal(t, "t:1004: and 5000 more", list[maxErrors].Error())
	require.Less(t, time.Since(start), 10*time.Second)
}

// A hundred thousand mistakes of classes with long paths cost no more than a
// thousand: paths are written out only for what is told.
func TestManyChildren(t *testing.T) {
	name := strings.Repeat("n", maxName)
	var b strings.Builder
	b.WriteString("tree: t\nglobal: {rate: 1/s, children: {")
	for range 6 {
		fmt.Fprintf(&b, "%s: {rate: 1/s, children: {", name)
	}
	for i := range 100_000 {
		fmt.Fprintf(&b, "c%d: {rate: 5/s},\n", i)
	}
	b.WriteString(strings.Repeat("}}", 7))
	_, err := Parse("t", []byte(b.String()))
	var list Errors
	require.True(t, errors.As(err, &list))
	require.Len(t, list, maxErrors+1)
}
