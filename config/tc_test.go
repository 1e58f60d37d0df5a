package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/stretchr/testify/require"
)

// goldenTC is golden for files that end in .tc.
func goldenTC(t *testing.T, path, got string) {
	t.Helper()
	golden(t, strings.TrimSuffix(path, ".tc"), got)
}

func TestGoodTC(t *testing.T) {
	each(t, "testdata/tc/good/*.tc", func(t *testing.T, path string, data []byte) {
		f, paths, err := ParseTC(filepath.Base(path), data)
		require.NoError(t, err)
		requireTC(t, f, paths)
		goldenTC(t, path, printedTC(f))
	})
}

// Every bad file is refused, with all its mistakes, by line.
func TestBadTC(t *testing.T) {
	each(t, "testdata/tc/bad/*.tc", func(t *testing.T, path string, data []byte) {
		f, paths, err := ParseTC(filepath.Base(path), data)
		require.Nil(t, f)
		require.Nil(t, paths)
		requireErrors(t, err)
		list := err.(Errors)
		require.LessOrEqual(t, list[len(list)-1].Line, 1+breaks(data))
		goldenTC(t, path, err.Error()+"\n")
	})
}

// One line, one mistake: what follows from it is not told as well.
func TestOneMistakeEachTC(t *testing.T) {
	data, err := os.ReadFile("testdata/tc/bad/one-mistake-each.tc")
	require.NoError(t, err)
	_, _, err = ParseTC("t.tc", data)
	list := err.(Errors)
	for i, e := range list {
		require.Equal(t, i+2, e.Line, "%v", e) // the first line is right
	}
	require.Len(t, list, strings.Count(string(data), "\n")-1)
}

// printedTC is a tree, a class on a line, and the warnings.
func printedTC(f *File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s, unit %s, semantics %s\n", f.Tree, f.Unit, f.Semantics)
	var class func(s htb.Spec, c *Class, indent string)
	class = func(s htb.Spec, c *Class, indent string) {
		fmt.Fprintf(&b, "%3d %s%s rate %v burst %d ceil %v cburst %d prio %d quantum %d\n", c.Line, indent, s.Name, s.Rate, s.Burst, s.Ceil, s.CBurst, s.Prio, s.Quantum)
		for i := range s.Children {
			class(s.Children[i], c.Children[i], indent+"  ")
		}
	}
	class(f.Root, f.Settings, "")
	for _, w := range f.Warnings {
		fmt.Fprintf(&b, "warning: %v\n", w)
	}
	return b.String()
}

// requireTC holds what every tree read from a .tc file keeps to.
func requireTC(t *testing.T, f *File, paths map[string][]string) {
	t.Helper()
	require.Equal(t, Bytes, f.Unit)
	require.Equal(t, "kernel", f.Semantics)
	seen := 0
	var check func(s htb.Spec, c *Class, path []string)
	check = func(s htb.Spec, c *Class, path []string) {
		seen++
		require.LessOrEqual(t, len(path), htb.MaxDepth-1)
		require.Equal(t, path, append([]string{}, paths[s.Name]...))
		require.False(t, s.Remote)
		require.Zero(t, s.Sync)
		require.Len(t, c.Children, len(s.Children))
		require.Positive(t, c.Line)
		require.Equal(t, c.Line, f.Place(htb.Mistake{Path: path}).Line)
		for _, n := range [...]int64{s.Burst, s.CBurst, s.Quantum} {
			require.Positive(t, n)
			require.LessOrEqual(t, n, int64(1_000_000_000+maxSize))
		}
		for _, r := range [...]algo.Rate{s.Rate, s.Ceil} {
			require.Positive(t, r.Over(time.Second))
			require.Equal(t, algo.PerSecond(r.Over(time.Second)), r, "not whole bytes per second")
		}
		require.GreaterOrEqual(t, s.Prio, 0)
		require.LessOrEqual(t, s.Prio, 7)
		last := classID(0)
		for i, child := range s.Children {
			id, ok := parseClassID(child.Name)
			require.True(t, ok)
			require.Equal(t, child.Name, id.String())
			require.Greater(t, id, last)
			last = id
			check(child, c.Children[i], append(path[:len(path):len(path)], child.Name))
		}
	}
	check(f.Root, f.Settings, []string{})
	require.Len(t, paths, seen)
}

// The defaults in numbers: 300 kbit is 37500 bytes per second, thus 37 in a
// millisecond, and 3750 through r2q 10.
func TestDefaultsTC(t *testing.T) {
	f, paths, err := ParseTC("dir/home.v2.tc", []byte("class add dev eth0 parent 1: classid 1:1 htb rate 300kbit ceil 1mbit"))
	require.NoError(t, err)
	require.Equal(t, htb.Spec{
		Name: "1:1", Rate: algo.PerSecond(37_500), Burst: 1637, Ceil: algo.PerSecond(125_000), CBurst: 1725, Quantum: 3750,
	}, f.Root)
	require.Equal(t, "home.v2", f.Tree)
	require.Equal(t, "dir/home.v2.tc", f.Name)
	require.Equal(t, map[string][]string{"1:1": nil}, paths)
	require.Empty(t, f.Warnings)
}

func TestPathsTC(t *testing.T) {
	data, err := os.ReadFile("testdata/tc/good/five-levels.tc")
	require.NoError(t, err)
	f, paths, err := ParseTC("five-levels.tc", data)
	require.NoError(t, err)
	require.Equal(t, []string{"1:2", "1:3", "1:4", "1:24"}, paths["1:24"])
	require.Equal(t, []string{"1:20"}, paths["1:20"])
	e := f.Place(htb.Mistake{Path: paths["1:24"], Key: "ceil", Text: "is odd"})
	require.Equal(t, "five-levels.tc:10: 1:2/1:3/1:4/1:24: is odd", e.Error())
}

func TestCommands(t *testing.T) {
	for _, step := range []struct{ data, want string }{
		{"", ""},
		{"\n # a\n\t\n", ""},
		{"a b\nc", "1:a 1:b | 2:c"},
		{"a\\\nb", "1:a 2:b"},
		{"a \\\r\n b\r\nc\r\n", "1:a 2:b | 3:c"},
		{"a # b \\\nc", "1:a | 2:c"},
		{"a \\\n# b \\\nc", "1:a | 3:c"},
		{"a \\", "1:a"},
		{"\\\n\\\na", "3:a"},
		{"a#b", "1:a"},
	} {
		var got []string
		for i, words := range commands([]byte(step.data)) {
			if i > 0 {
				got = append(got, "|")
			}
			for _, w := range words {
				got = append(got, fmt.Sprintf("%d:%s", w.line, w.text))
			}
		}
		require.Equal(t, step.want, strings.Join(got, " "), "%q", step.data)
	}
}

func TestClassIDs(t *testing.T) {
	for _, step := range []struct{ text, want string }{
		{"1:10", "1:10"}, {"0001:0A0", "1:a0"}, {"ffff:ffff", "ffff:ffff"}, {"0x1:0x10", "1:10"}, {"1:", "1:0"}, {"1:0", "1:0"},
	} {
		id, ok := parseClassID(step.text)
		require.True(t, ok, step.text)
		require.Equal(t, step.want, id.String())
		require.Equal(t, strings.HasSuffix(step.want, ":0"), id.isQdisc())
	}
	for _, text := range []string{"", ":", ":1", "0:1", "1", "1:2:3", "10000:1", "1:-1", "1:+1", "1:g", "1: 1", "1:1_0", "root"} {
		_, ok := parseClassID(text)
		require.False(t, ok, text)
	}
}

// A deep chain and a wide tree take no longer than reading them: with a walk per class
// this would take minutes.
func TestManyTC(t *testing.T) {
	var chain, wide strings.Builder
	chain.WriteString("class add dev e parent 1: classid 1:1 htb rate 1mbit\n")
	wide.WriteString(chain.String())
	for i := 2; i < 1<<14; i++ {
		fmt.Fprintf(&chain, "class add dev e parent 1:%x classid 1:%x htb rate 1mbit\n", i-1, i)
		fmt.Fprintf(&wide, "class add dev e parent 1:1 classid 1:%x htb rate 1mbit\n", i)
	}
	_, _, err := ParseTC("t.tc", []byte(chain.String()))
	require.EqualError(t, err, "t.tc:9: 1:9: is on level 9 of at most 8: take a level out above it")
	_, _, err = ParseTC("t.tc", []byte(strings.Replace(chain.String(), "parent 1:", "parent 1:3fff", 1)))
	require.EqualError(t, err, "t.tc:1: 1:1: is below itself (1:1 is below 1:3fff is below 1:3ffe is below 1:3ffd is below 1:3ffc is below 1:3ffb is below 1:3ffa is below 1:3ff9 is below ...): write parent 1: for the one at the top")
	f, paths, err := ParseTC("t.tc", []byte(wide.String()))
	require.NoError(t, err)
	require.Len(t, f.Root.Children, 1<<14-2)
	require.Len(t, paths, 1<<14-1)

	_, _, err = ParseTC("t.tc", make([]byte, maxFile+1))
	require.ErrorContains(t, err, "t.tc:1: the file has 16777217 bytes, the most is 16777216")
}
