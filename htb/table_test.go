package htb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-sluice/sluice/algo"
)

// checkTable checks the laws of a table, its index and its shelves.
func checkTable(t require.TestingT, x *class) {
	tab := x.in.dyn.table
	if tab == nil {
		return
	}
	pins, pieces := 0, 0
	for slot := range tab.n {
		r := tab.record(slot)
		found, ok := tab.find(string(tab.name(r)))
		require.True(t, ok)
		require.Equal(t, slot, found)
		if r.onShelf() {
			pieces++
		}
		if c := tab.pinned[slot]; c != nil {
			pins++
			require.True(t, r.pinned())
			require.Equal(t, slot+1, c.slot)
			require.Same(t, x, c.parent)
			require.Same(t, x.template, c.plan)
			require.False(t, c.dropped)
			require.NotSame(t, tab.scratch, c)
		} else {
			require.False(t, r.pinned())
		}
	}
	require.Len(t, tab.pinned, pins)
	require.Same(t, x.template, tab.scratch.plan)
	for _, f := range tab.more {
		pieces -= f.n
	}
	require.Zero(t, pieces)
	entries := 0
	seen := map[*segment]bool{}
	for i, s := range tab.index.dir {
		require.Same(t, s, tab.index.dir[i&(1<<s.depth-1)])
		if seen[s] {
			continue
		}
		seen[s] = true
		n := 0
		for j, e := range s.at {
			if e == 0 {
				continue
			}
			n++
			require.Equal(t, i&(1<<s.depth-1), int(e.hash())&(1<<s.depth-1))
			for k := home(e.hash()); k != j; k = following(k) {
				require.NotZero(t, s.at[k], "a gap before its place")
			}
		}
		require.Equal(t, int(s.n), n)
		entries += n
	}
	if len(tab.index.dir) > 0 {
		require.Equal(t, tab.n, entries)
	}
}

// A table is a map from names to what was stored, whatever comes and goes.
func TestATableIsAMap(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		spec := perSecond("", 1e6, 0, perSecond(Template, 5, 0))
		spec.Children[0].Max = 1e6
		if seed%3 == 0 {
			spec.Children[0].Also = []Limit{{rate(100, time.Hour), 100}, {algo.PerSecond(4), 9}}
		}
		tree := mustTree(t, spec)
		root := tree.root
		model := map[string]counts{}
		var names []string
		most := []int{10, 300, 5000}[r.IntN(3)]
		for range 4 * most {
			if len(names) < most && r.IntN(2) == 0 {
				name := fmt.Sprint(len(names), "-", r.Uint32())
				if r.IntN(2) == 0 {
					name += strings.Repeat("x", r.IntN(MaxName-30))
				}
				c := root.enter(name)
				c.fetch()
				c.counts = counts{gets: r.Int64N(1 << 40), rejected: r.Int64N(1 << 40), borrows: r.Int64N(1 << 40)}
				model[name] = c.counts
				c.park(0)
				names = append(names, name)
			} else if len(names) > 0 {
				i := r.IntN(len(names))
				slot, ok := root.in.dyn.table.find(names[i])
				require.True(t, ok)
				root.dropSlot(slot, 0)
				delete(model, names[i])
				names[i] = names[len(names)-1]
				names = names[:len(names)-1]
			}
			if r.IntN(most) == 0 {
				most = 3 + r.IntN(most)
				for _, name := range names[min(most, len(names)):] {
					slot, _ := root.in.dyn.table.find(name)
					root.dropSlot(slot, 0)
					delete(model, name)
				}
				names = names[:min(most, len(names))]
				checkTable(t, root)
			}
		}
		checkTable(t, root)
		require.Equal(t, len(model), root.in.dyn.table.n)
		for name, want := range model {
			c, ok := root.child(name)
			require.True(t, ok)
			require.Equal(t, want, c.counts)
		}
		_, ok := root.child("nobody")
		require.False(t, ok)
	}
}

// Leaves in a table decide as leaves that are classes, which those of a Remote template
// always are: whatever is asked, held, settled and replaced.
func TestTabledLeavesDecideAsClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		genTemplate := func(label string) Spec {
			s := Spec{Name: Template, Rate: rate(rapid.Int64Range(1, 9).Draw(t, label+" rate"), time.Second), Ceil: rate(30, time.Second)}
			s.Burst = rapid.Int64Range(1, 6).Draw(t, label+" burst")
			s.CBurst = s.Burst + rapid.Int64Range(0, 6).Draw(t, label+" cburst")
			s.Quantum = rapid.SampledFrom([]int64{0, 1, 1000}).Draw(t, label+" quantum")
			s.Prio = rapid.IntRange(0, 1).Draw(t, label+" prio")
			s.Also = [][]Limit{nil, nil, {{rate(40, time.Minute), 30}}, {{rate(400, time.Hour), 90}, {rate(20, time.Second), 20}}}[rapid.IntRange(0, 3).Draw(t, label+" also")]
			return s
		}
		tenants := rapid.Bool().Draw(t, "tenants")
		spec := func(label string) (plain, remote Spec) {
			s := genTemplate(label)
			both := [2]Spec{}
			for i := range both {
				s.Remote = i == 1
				below := []Spec{s}
				if rapid.Bool().Draw(t, label+" named") {
					below = append(below, Spec{Name: "c2", Rate: rate(2, time.Second), Ceil: rate(20, time.Second), Remote: i == 1})
				}
				if i == 1 && len(below) != len(both[0].Children[1].Children) {
					below = append(below[:1], both[0].Children[1].Children[1:]...)
				}
				name := "free"
				if tenants {
					name = Template
				}
				both[i] = Spec{Rate: rate(50, time.Second), Children: []Spec{
					{Name: "acme", Rate: rate(20, time.Second), Ceil: rate(50, time.Second)},
					{Name: name, Rate: rate(10, time.Second), Ceil: rate(40, time.Second), Children: below},
				}}
			}
			return both[0], both[1]
		}
		plain, remote := spec("first")
		trees := [2]*Tree{mustTree(t, plain), mustTree(t, remote)}
		calls := genCalls(t, 40, 300)
		if rapid.Bool().Draw(t, "busy") {
			calls = genBusy(t, plain, 6, 1500)
		}
		var holds [][2]*Hold
		handles := map[string][2]*Leaf{}
		now := Time(0)
		for i, c := range calls {
			now = now.Add(c.after)
			names := []string{"free", fmt.Sprint("c", c.leaf)}
			if c.leaf%3 == 0 {
				names[1] += " with a name of more bytes than a record has"
			}
			if c.leaf == 0 {
				names = []string{"acme"}
			}
			var d [2]Decision
			var h [2]*Hold
			handle, ok := handles[Path(names...)]
			if !ok {
				for k := range handle {
					var err error
					handle[k], err = trees[k].Leaf(names...)
					require.NoError(t, err)
				}
				handles[Path(names...)] = handle
			}
			for k := range d {
				switch i % 4 {
				case 0:
					h[k], d[k], _ = trees[k].Hold(now, c.cost, names...)
				case 1:
					d[k], _ = handle[k].Allow(now, c.cost)
				default:
					d[k], _ = trees[k].Allow(now, c.cost, names...)
				}
			}
			if d[0].tree != nil {
				require.Equal(t, d[1].Remaining(), d[0].Remaining(), "call %d", i)
				require.Equal(t, d[1].Reset(), d[0].Reset(), "call %d", i)
				require.Equal(t, d[1].Lender(), d[0].Lender(), "call %d", i)
				require.Equal(t, d[1].RefusedBy(), d[0].RefusedBy(), "call %d", i)
			}
			for k := range d {
				d[k].tree, d[k].leaf, d[k].name = nil, nil, ""
			}
			require.Equal(t, d[1], d[0], "call %d", i)
			if h[0] != nil {
				holds = append(holds, h)
			}
			if i%5 == 0 && len(holds) > 0 {
				for k := range h {
					_ = holds[0][k].Settle(now, c.cost/2+int64(i%2))
				}
				holds = holds[1:]
			}
			if i%97 == 96 {
				plain, remote := plain, remote
				if i%2 == 0 {
					plain, remote = spec("next")
				}
				require.NoError(t, trees[0].Replace(now, plain))
				require.NoError(t, trees[1].Replace(now, remote))
			}
			checkState(t, trees[0], false)
		}
		rows := [2][]Stats{trees[0].Stats(now), trees[1].Stats(now)}
		for k := range rows {
			for i := range rows[k] { // a class that was a leaf, or had a template, may have lent
				if rows[k][i].Leaf {
					rows[k][i].Lends = 0
				}
			}
			checkSums(t, rows[k])
		}
		require.Equal(t, rows[1][0].Wants, rows[0][0].Wants)
	})
}

// A leaf whose numbers do not fit into a record stays a class, for as long.
func TestNumbersThatDoNotFit(t *testing.T) {
	template := perSecond(Template, 1e9, 1e12)
	template.Burst = 1 << 40
	template.CBurst = 1 << 41
	tree := mustTree(t, Spec{Rate: algo.PerSecond(1e12), Children: []Spec{template}})
	pins := func() int { return len(tree.root.in.dyn.table.pinned) }
	d, err := tree.Allow(0, 1<<39, "a")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Zero(t, pins())
	for range 2 {
		_, err := tree.Allow(second, 1<<39, "a")
		require.NoError(t, err)
	}
	require.Equal(t, 1, pins(), "over 2^40 units")
	require.Equal(t, int64(3)<<39, tree.Stats(0)[1].Gets)
	for s := range Time(9) {
		_, err := tree.Allow(1000_000*(s+1)*second, 0, "b")
		require.NoError(t, err)
	}
	require.Zero(t, pins(), "at rest")
	checkState(t, tree, true)

	// marks: far from each other in one chunk, and moved between chunks
	template = perSecond(Template, 1, 1e6)
	tree = mustTree(t, perSecond("", 1e6, 0, template))
	root := tree.root
	k := &root.in.clocks[0]
	far := algo.Times(1<<63, 8)
	for i := range 3 * chunkSize {
		c := root.enter(fmt.Sprint(i))
		c.fetch()
		c.mark = algo.Times(uint64(i), 1)
		if i >= chunkSize {
			k.top, k.low = far, algo.Times(1<<62, 15)
			c.mark = far.Add(c.mark)
		}
		c.park(0)
	}
	require.Zero(t, pinsOf(tree))
	for i := range chunkSize / 2 {
		slot, ok := root.in.dyn.table.find(fmt.Sprint(i))
		require.True(t, ok)
		root.dropSlot(slot, 0)
	}
	require.Equal(t, chunkSize/2, pinsOf(tree), "the ones that were moved")
	for i := chunkSize / 2; i < 3*chunkSize; i++ {
		c, ok := root.child(fmt.Sprint(i))
		require.True(t, ok)
		want := algo.Times(uint64(i), 1)
		if i >= chunkSize {
			want = far.Add(want)
		}
		require.Equal(t, want, c.mark)
		c.park(0)
	}
	require.Zero(t, pinsOf(tree), "counted from the clock: of marks under its low none means more than another")
	c, ok := root.child(fmt.Sprint(chunkSize - 1))
	require.True(t, ok)
	require.Equal(t, k.low, c.mark)
	checkTable(t, root)
}

func pinsOf(tree *Tree) int { return len(tree.root.in.dyn.table.pinned) }

// While names come and go there are at most a third more than those not at rest, and
// after a crowd there are fewer again; nothing stays of what the crowd took.
func TestTheDeadAreFew(t *testing.T) {
	for _, name := range []string{"%d", "a name of more than sixteen bytes %d"} {
		tree := mustTree(t, perSecond("", 1e6, 0, Spec{Name: Template, Rate: algo.PerSecond(10), Max: 1e6}))
		now, n := Time(0), 0
		come := func(each time.Duration, names int) {
			for range names {
				n++
				now = now.Add(each)
				ask(t, tree, now, 1, fmt.Sprintf(name, n))
			}
		}
		table := func() *table { return tree.root.in.dyn.table }
		come(10*time.Microsecond, 100_000) // 10 000 are not at rest at a time
		require.Less(t, table().n, 13_400)
		come(time.Microsecond, 100_000)
		require.Greater(t, table().n, 90_000)
		come(100*time.Microsecond, 200_000)
		require.Less(t, table().n, 1400)
		require.Less(t, len(table().rest), 2)
		segments := map[*segment]bool{}
		for _, s := range table().index.dir {
			segments[s] = true
		}
		require.Less(t, len(segments), 40, "of some 130")
		for _, f := range table().more {
			require.LessOrEqual(t, len(f.chunks), f.n/shelfPieces+2)
		}
		checkTable(t, tree.root)
		checkSums(t, tree.Stats(now))
	}
}

// At its max a template finds room for a new name with the first that is at rest.
func TestRoomAtMax(t *testing.T) {
	tree := mustTree(t, perSecond("", 1e6, 0, Spec{Name: Template, Rate: algo.PerSecond(10), Max: 500}))
	for i := range 500 {
		names := []string{fmt.Sprint(i)}
		ask(t, tree, 0, 1+i%7, names...)
	}
	ask(t, tree, second/20, 1, "nobody's")
	require.Equal(t, int64(1), tree.root.in.dyn.overflow.counts.gets, "none is at rest")
	before := tree.root.in.dyn.table.hand
	ask(t, tree, second/20, 1, "nobody's either")
	require.Equal(t, before, tree.root.in.dyn.table.hand, "which it need not look at again")
	for i := range 72 { // one unit is back after 0.1 s
		ask(t, tree, second/8, 1, fmt.Sprint("new-", i))
	}
	require.Equal(t, int64(2), tree.root.in.dyn.overflow.counts.gets)
	require.Equal(t, 500, tree.Stats(second / 8)[0].Live)
	checkTable(t, tree.root)
}

// After max was lowered there are no more than that soon, whoever comes: new names share.
func TestALoweredMax(t *testing.T) {
	spec := func(most int) Spec {
		return Spec{Rate: algo.PerSecond(1000), Children: []Spec{{Name: Template, Rate: algo.PerSecond(1), Burst: 10, Ceil: algo.PerSecond(1000), CBurst: 100, Max: most}}}
	}
	tree, err := New(spec(10))
	require.NoError(t, err)
	now := Time(0)
	for i := range 10 {
		_, err := tree.Allow(now, 10, fmt.Sprint("a", i))
		require.NoError(t, err)
		now = now.Add(time.Second)
	}
	require.NoError(t, tree.Replace(now, spec(2)))
	shared := 0
	for i := range 200 {
		now = now.Add(1010 * time.Millisecond)
		d, err := tree.Allow(now, 10, fmt.Sprint("b", i))
		require.NoError(t, err)
		if d.Lender() == Template || d.Up > 0 {
			shared++
		}
	}
	require.LessOrEqual(t, tree.Stats(now)[0].Live, 2)
	require.Greater(t, shared, 100)
}
