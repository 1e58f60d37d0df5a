package htb

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
)

const second = Time(time.Second)

func perSecond(name string, units, ceil int64, children ...Spec) Spec {
	return Spec{Name: name, Rate: algo.PerSecond(units), Ceil: algo.PerSecond(max(units, ceil)), Children: children}
}

// ask asks n times for cost 1 and returns how many passed.
func ask(t require.TestingT, tree *Tree, now Time, n int, names ...string) (passed int) {
	for range n {
		d, err := tree.Allow(now, 1, names...)
		require.NoError(t, err)
		if d.Allowed {
			passed++
		}
	}
	return passed
}

// root 100 {P 60, ceil 100 {L 10, ceil 100}, Q 40, ceil 100 {M 40, ceil 100}}, L
// and M hammering: what P leaves of its rate is L's before it is M's.
func TestAnInnerClassServesItsOwnFirst(t *testing.T) {
	tree := mustTree(t, perSecond("", 100, 0,
		perSecond("P", 60, 100, perSecond("L", 10, 100)),
		perSecond("Q", 40, 100, perSecond("M", 40, 100))))
	leaves := [][]string{{"P", "L"}, {"Q", "M"}}
	drive(tree, leaves, 0, 2*second, 1)
	got := drive(tree, leaves, 2*second, 12*second, 1)
	require.InDelta(t, 600, got[0], 2)
	require.InDelta(t, 400, got[1], 2)
}

// root 1000 {two leaves of 450, ceil 1000}, both hammering, default bursts.
func TestExactlyTheRootsRate(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("a", 450, 1000), perSecond("b", 450, 1000)))
	leaves := [][]string{{"a"}, {"b"}}
	first := drive(tree, leaves, 0, second, 1)
	require.InDelta(t, 1350-450/3+1000, first[0]+first[1], 4, "the bursts, the headroom but for the third that who is ahead leaves, and a second of rate")
	for s := Time(1); s < 10; s++ {
		got := drive(tree, leaves, s*second, (s+1)*second, 1)
		require.Equal(t, int64(1000), got[0]+got[1], "second %d", s)
	}
}

// The reserve is what the children hold, no more: a lone borrower waits for no tokens
// that an idle sibling, full already, would never claim.
func TestTheReserveIsTheTrueSum(t *testing.T) {
	b := perSecond("b", 450, 1000)
	b.CBurst = 5000
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("a", 450, 1000), b))
	first := drive(tree, [][]string{{"b"}}, 0, second, 1)[0]
	t.Logf("first second: %d", first)
	require.InDelta(t, 1350-450-450/3+1000, first, 3, "all there is but a's 450, and a third of the headroom for who may come")
	require.Equal(t, int64(1000), drive(tree, [][]string{{"b"}}, second, 2*second, 1)[0])
}

// root 1000 {acme 600, o: rate 200, ceil 1000, template 5/s}: 200 clients of o, each
// within its 5/s, are promised 1000/s; acme with 599/s is never refused.
func TestAnOversubscribedNeighbour(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("acme", 600, 0), perSecond("o", 200, 1000, perSecond(Template, 5, 0))))
	for ms := range Time(10_000) {
		now := ms * Time(time.Millisecond)
		ask(t, tree, now, 1, "o", fmt.Sprint(ms%200))
		if (ms+1)*599/1000 > ms*599/1000 {
			require.Equal(t, 1, ask(t, tree, now, 1, "acme"), "at %d ms", ms)
		}
	}
}

// A tenant at 10/min over two clients of 5/min each: a refused request charges nobody.
func TestARefusedRequestChargesNobody(t *testing.T) {
	perMinute := func(name string, n, burst int64, children ...Spec) Spec {
		return Spec{Name: name, Rate: rate(n, time.Minute), Burst: burst, Children: children}
	}
	tree := mustTree(t, perMinute("", 10, 10, perMinute("1", 5, 5), perMinute("2", 5, 5)))
	require.Equal(t, 5, ask(t, tree, 0, 8, "1"))
	require.Equal(t, 5, ask(t, tree, 0, 5, "2"))
}

// Flat limits, as trees of one class.
func TestFlatLimits(t *testing.T) {
	flat := func(n int64, period time.Duration, burst int64) *Tree {
		return mustTree(t, Spec{Rate: rate(n, period), Burst: burst})
	}
	tree := flat(17, 30*time.Second, 17)
	passed := 0
	for i := range Time(60) {
		passed += ask(t, tree, i*second/2, 1)
	}
	require.InDelta(t, 33, passed, 1)

	tree = flat(1, time.Second, 4) // a time 10 s in the past
	require.Equal(t, 4, ask(t, tree, 20*second, 4))
	require.Equal(t, 0, ask(t, tree, 10*second, 1))
	require.Equal(t, 0, ask(t, tree, 20*second+second/2, 4))

	for _, c := range []struct {
		n      int64
		period time.Duration
		minute int64
	}{{1500, time.Second, 90_000}, {6000, time.Second, 360_000}, {1000, time.Minute, 1000}} {
		tree := flat(c.n, c.period, 2)
		require.Equal(t, 2, ask(t, tree, 0, 3))
		require.Equal(t, c.minute, drive(tree, [][]string{{}}, 1, 60*second+1, 1)[0], "%d per %v", c.n, c.period)
	}

	tree = flat(5, time.Minute, 5)
	require.Equal(t, 5, ask(t, tree, 0, 6))
	d, err := tree.Allow(0, 1)
	require.NoError(t, err)
	require.Equal(t, 12*time.Second, d.RetryAfter)
	require.Equal(t, 0, ask(t, tree, 12*second-1, 1))
	require.Equal(t, 1, ask(t, tree, 12*second, 1))
}

// Names are data.
func TestNames(t *testing.T) {
	tree := mustTree(t, perSecond("", 100, 0, perSecond("free", 10, 0, perSecond(Template, 1, 0)), perSecond("a", 10, 0, perSecond("b", 1, 0))))
	for _, name := range []string{"a/b", "}", "..", "*", "global", "%2F", "a b", "\x00", "日本", strings.Repeat("x", MaxName)} {
		d, err := tree.Allow(0, 1, "free", name)
		require.NoError(t, err, "%q", name)
		require.Equal(t, "free/"+escape(name, false), d.Lender())
		back, err := ParsePath(d.Lender())
		require.NoError(t, err)
		require.Equal(t, []string{"free", name}, back)
	}
	for _, name := range []string{"", strings.Repeat("x", MaxName+1), strings.Repeat("x", 10_000), "\xff"} {
		_, err := tree.Allow(0, 1, "free", name)
		require.ErrorIs(t, err, ErrName)
		_, err = tree.Leaf("free", name)
		require.ErrorIs(t, err, ErrName)
	}
	for _, names := range [][]string{{"a/b"}, {"nobody"}, {"a", "b", "c"}, {"free", "x", "y"}} {
		_, err := tree.Allow(0, 1, names...)
		require.ErrorIs(t, err, ErrUnknown, "%q", names)
		_, err = tree.Leaf(names...)
		require.ErrorIs(t, err, ErrUnknown, "%q", names)
	}
	for _, names := range [][]string{{}, {"a"}, {"free"}} {
		_, err := tree.Allow(0, 1, names...)
		require.ErrorIs(t, err, ErrNotLeaf, "%q", names)
		_, err = tree.Leaf(names...)
		require.ErrorIs(t, err, ErrNotLeaf, "%q", names)
	}
	require.Equal(t, int64(10), tree.Stats(0)[0].Wants, "an error counts nowhere")
	top := mustTree(t, perSecond("", 100, 0, perSecond(Template, 1, 0)))
	d, err := top.Allow(0, 1, "global")
	require.NoError(t, err)
	require.Equal(t, "%67lobal", d.Lender(), "not to be taken for the root")
}

// Dual leaky bucket: both must admit, and a refusal by either charges neither.
func TestFurtherLimits(t *testing.T) {
	leaf := perSecond("a", 100, 0)
	leaf.Also = []Limit{{rate(50, time.Hour), 50}, {algo.PerSecond(20), 20}}
	tree := mustTree(t, perSecond("", 100, 0, leaf))
	require.Equal(t, 20, ask(t, tree, 0, 200, "a"))
	require.Equal(t, 20, ask(t, tree, second, 200, "a"))
	require.Equal(t, 10, ask(t, tree, 2*second, 200, "a"), "the quota of 50")
	d, err := tree.Allow(3*second, 1, "a")
	require.NoError(t, err)
	require.Equal(t, AlsoLimit, d.Reason)
	require.Equal(t, "a", d.RefusedBy())
	require.Equal(t, 72*time.Second-3*time.Second, d.RetryAfter, "50 an hour are one in 72 s, running since 0 s")
	require.Zero(t, d.Remaining())
	require.Equal(t, 1, ask(t, tree, 72*second, 2, "a"))
	_, err = tree.Allow(0, 21, "a")
	require.ErrorIs(t, err, ErrCost)
	require.ErrorContains(t, err, "burst 20 of its limit 20/s")
}

// The E trees of the HTB user guide, and MikroTik's, with one leaf borrowing and all
// others at most at their rate: link 100, in units of 10 per second.
func TestUserGuideWithOneBorrower(t *testing.T) {
	leaf := func(name string, n, ceil, prio int64) Spec {
		s := perSecond(name, n*10, ceil*10)
		s.Prio, s.Burst, s.CBurst = int(prio), max(1, n), max(1, n)
		return s
	}
	inner := func(n, ceil int64, children ...Spec) Spec { return perSecond("A", n*10, ceil*10, children...) }
	e1 := perSecond("", 1000, 0, leaf("10", 30, 100, 0), leaf("11", 10, 100, 0), leaf("12", 60, 100, 0))
	e2 := perSecond("", 1000, 0, inner(40, 100, leaf("10", 30, 100, 0), leaf("11", 10, 100, 0)), leaf("12", 60, 100, 0))
	e3 := perSecond("", 1000, 0, inner(40, 60, leaf("10", 30, 60, 0), leaf("11", 10, 20, 0)), leaf("12", 60, 100, 0))
	paths := map[string][]string{"10": {"A", "10"}, "11": {"A", "11"}, "12": {"12"}}
	flat := map[string][]string{"10": {"10"}, "11": {"11"}, "12": {"12"}}
	m := func(q02, q03 int64) Spec { // MikroTik's, link 10 in units of 100
		q := func(name string, n int64) Spec { return leaf(name, n*10, 100, 0) }
		x := perSecond("Q02", q02*100, 1000, q("Q04", 2), q("Q05", 2))
		return perSecond("", 1000, 0, x, q("Q03", q03))
	}
	mikrotik := map[string][]string{"Q04": {"Q02", "Q04"}, "Q05": {"Q02", "Q05"}, "Q03": {"Q03"}}
	for name, c := range map[string]struct {
		tree     Spec
		paths    map[string][]string
		borrower string
		others   map[string]int64 // offered, in the guide's units
		want     int64
	}{
		"E1 only 10":           {e1, flat, "10", nil, 100},
		"E1 10 beside 11 in":   {e1, flat, "10", map[string]int64{"11": 10}, 90},
		"E1 12 beside 11, 10":  {e1, flat, "12", map[string]int64{"11": 5, "10": 15}, 80},
		"E2 10 off: A keeps":   {e2, paths, "11", map[string]int64{"12": 60}, 40},
		"E2 11 off":            {e2, paths, "10", map[string]int64{"12": 60}, 40},
		"E2 12 off, 10 in":     {e2, paths, "11", map[string]int64{"10": 30}, 70},
		"E3 10 off: ceil 20":   {e3, paths, "11", map[string]int64{"12": 60}, 20},
		"E3 10 off: 12 borrow": {e3, paths, "12", map[string]int64{"11": 10}, 90},
		"E3 only 10: ceil 60":  {e3, paths, "10", nil, 60},
		"E3 12 off":            {e3, paths, "10", map[string]int64{"11": 10}, 50},
		"M1 nothing to borrow": {m(4, 6), mikrotik, "Q04", map[string]int64{"Q05": 20, "Q03": 60}, 20},
		"M2 Q04":               {m(4, 2), mikrotik, "Q04", map[string]int64{"Q05": 20, "Q03": 20}, 60},
		"M3 Q04":               {m(8, 2), mikrotik, "Q04", map[string]int64{"Q05": 20, "Q03": 20}, 60},
		"M3 Q03, Q05 off":      {m(8, 2), mikrotik, "Q03", map[string]int64{"Q04": 20}, 80},
	} {
		t.Run(name, func(t *testing.T) {
			tree := mustTree(t, c.tree)
			got, passed := int64(0), map[string]int64{}
			for ms := range Time(12_000) {
				now := ms * Time(time.Millisecond)
				for _, other := range []string{"10", "11", "12", "Q03", "Q04", "Q05"} {
					n := c.others[other] * 10
					for range (ms+1)*Time(n)/1000 - ms*Time(n)/1000 {
						require.Equal(t, 1, ask(t, tree, now, 1, c.paths[other]...), "%s within its rate", other)
						passed[other]++
					}
				}
				if n := ask(t, tree, now, 5, c.paths[c.borrower]...); ms >= 2000 {
					got += int64(n)
				}
			}
			require.InEpsilon(t, c.want*100, got, 0.01, "over 10 s")
		})
	}
}

// The worked example of the package comment, decision by decision.
func TestWorkedExample(t *testing.T) {
	web, mail := perSecond("web", 6, 10), perSecond("mail", 3, 10)
	web.Burst, mail.Burst = 2, 2
	root := perSecond("", 10, 0, web, mail)
	tree := mustTree(t, root)
	require.Equal(t, int64(6), tree.Spec().Resolved().Burst, "2 + 2, and headroom of 2")

	type want struct {
		lender, refusedBy string
		why               Reason
		retry             time.Duration
	}
	for i, step := range []struct {
		at   Time
		leaf string
		want want
	}{
		{0, "web", want{lender: "web"}},
		{0, "web", want{lender: "web"}},
		{0, "web", want{"", "web", AtCeil, 100 * time.Millisecond}},
		{second / 10, "web", want{lender: "global"}},
		{second / 5, "web", want{lender: "web"}},
		{second / 5, "mail", want{lender: "mail"}},
		{second / 5, "mail", want{lender: "mail"}},
	} {
		d, err := tree.Allow(step.at, 1, step.leaf)
		require.NoError(t, err)
		require.Equal(t, step.want, want{d.Lender(), d.RefusedBy(), d.Reason, d.RetryAfter}, "step %d", i)
	}
}

// Who refuses, and why: one case for each reason.
func TestReasons(t *testing.T) {
	x := perSecond("x", 10, 100)
	x.CBurst = 50
	also := perSecond("z", 10, 0)
	also.Also = []Limit{{rate(1, time.Hour), 1}}
	tree := mustTree(t, perSecond("", 100, 0, x, perSecond("y", 20, 100), also, perSecond("v", 5, 0)))
	refused := func(n int, name string) (string, string) {
		ask(t, tree, 0, n, name)
		d, err := tree.Allow(0, 1, name)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		return d.RefusedBy(), d.Reason.String()
	}
	by, why := refused(5, "v")
	require.Equal(t, [2]string{"v", "ceil"}, [2]string{by, why})
	by, why = refused(1, "z")
	require.Equal(t, [2]string{"z", "also"}, [2]string{by, why})
	d, err := tree.Allow(0, 50, "x")
	require.NoError(t, err)
	require.Equal(t, [2]string{"global", "nothing to borrow"}, [2]string{d.RefusedBy(), d.Reason.String()}, "the rest of what the root has, others may claim")
	by, why = refused(99, "x")
	require.Equal(t, [2]string{"global", "fair share"}, [2]string{by, why}, "some is left, for others to borrow")
	ask(t, tree, 0, 99, "y")
	by, why = refused(99, "y")
	require.Equal(t, [2]string{"y", "ceil"}, [2]string{by, why})
}

// Reset: how long until the leaf's own buckets are full again.
func TestReset(t *testing.T) {
	leaf := perSecond("a", 5, 50)
	leaf.Burst, leaf.CBurst = 5, 10
	tree := mustTree(t, perSecond("", 100, 0, leaf))
	d, err := tree.Allow(0, 2, "a")
	require.NoError(t, err)
	require.Equal(t, 400*time.Millisecond, d.Reset())
	require.Equal(t, int64(8), d.Remaining(), "borrowed in one request: its own 3 would not do")
	d, err = tree.Allow(100*second, 0, "a")
	require.NoError(t, err)
	require.Zero(t, d.Reset())
}

func TestCosts(t *testing.T) {
	a := perSecond("a", 10, 100)
	a.Burst, a.CBurst = 5, 50
	tree := mustTree(t, perSecond("", 100, 0, a, perSecond("b", 20, 0)))
	require.Equal(t, int64(20+5+20), tree.Spec().Resolved().Burst)
	for _, cost := range []int64{46, 51, math.MaxInt64 / 2, -1, math.MinInt64} {
		d, err := tree.Allow(0, cost, "a")
		require.ErrorIs(t, err, ErrCost)
		require.Equal(t, Decision{}, d)
	}
	d, err := tree.Allow(0, 30, "a") // some state admits it, waiting alone does not
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, Never, d.RetryAfter)
	require.Equal(t, int64(20), d.Remaining(), "what lies over the reserve: burst 45 less 5 and 20")
	d, err = tree.Allow(0, 20, "a")
	require.NoError(t, err)
	require.Equal(t, "global", d.Lender())
	require.Equal(t, int64(5), d.Remaining())
	d, err = tree.Allow(0, 0, "a")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	checkSums(t, tree.Stats(0))
	_, err = tree.Allow(0, math.MaxInt64, "a")
	require.ErrorIs(t, err, ErrCost)
	require.Equal(t, int64(2*mostCounted+30+46+51), tree.Stats(0)[0].Rejected, "made-up numbers do not fill the counters")
}

func TestOverflowChild(t *testing.T) {
	template := perSecond(Template, 1, 10)
	template.Max = 3
	tree := mustTree(t, perSecond("", 100, 0, perSecond("free", 50, 100, template)))
	for i := range 1000 { // a flood of made-up names
		_, err := tree.Allow(Time(i), 1, "free", fmt.Sprint("name-", i))
		require.NoError(t, err)
	}
	rows := tree.Stats(1000)
	require.Equal(t, 3, rows[1].Live)
	require.Len(t, rows, 2+3+1)
	require.Equal(t, "free/*", rows[5].Path)
	require.Equal(t, int64(997), rows[5].Wants)
	require.Less(t, rows[5].Gets, int64(10), "they share one child's tokens and ceil")
	checkSums(t, rows)
	leaf, err := tree.Leaf("free", "name-999")
	require.NoError(t, err)
	d, err := leaf.Allow(1000, 1)
	require.NoError(t, err)
	require.Equal(t, "free/*", d.RefusedBy())

	_, err = tree.Allow(1_000*second, 1, "free", "late") // all at rest: room again
	require.NoError(t, err)
	rows = tree.Stats(1_000 * second)
	require.Less(t, rows[1].Live, 4)
	require.Contains(t, []string{rows[2].Path, rows[3].Path, rows[4].Path}, "free/late")
	checkSums(t, rows)
}

// Children at rest are dropped as names come by, and memory is bounded by those
// that are not at rest, however many names there are.
func TestDroppingChildren(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("free", 500, 1000, perSecond(Template, 5, 50))))
	for i := range 20_000 {
		_, err := tree.Allow(Time(i)*Time(time.Millisecond), 1, "free", fmt.Sprint("name-", i))
		require.NoError(t, err)
	}
	rows := tree.Stats(20_000 * Time(time.Millisecond))
	require.Less(t, rows[1].Live, 4000, "one unit takes 0.2 s to come back, and half of them borrowed, which is forgotten after 6.4 s at the latest")
	checkSums(t, rows)

	leaf, err := tree.Leaf("free", "name-1")
	require.NoError(t, err)
	first, err := leaf.Allow(100*second, 1)
	require.NoError(t, err)
	require.Equal(t, int64(4), first.Remaining())
	again, err := leaf.Allow(300*second, 1) // dropped and made anew in between, maybe
	require.NoError(t, err)
	require.Equal(t, int64(4), again.Remaining())
}

func TestAHoldKeepsItsChild(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("free", 500, 1000, perSecond(Template, 5, 50))))
	h, d, err := tree.Hold(0, 5, "free", "alice")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	for s := range Time(100) {
		_, err := tree.Allow(s*second, 1, "free", fmt.Sprint(s))
		require.NoError(t, err)
	}
	live := func() (found bool) {
		for _, r := range tree.Stats(100 * second) {
			found = found || r.Path == "free/alice"
		}
		return found
	}
	require.True(t, live())
	require.NoError(t, h.Settle(100*second, 50))
	require.ErrorIs(t, h.Settle(100*second, 50), ErrSettled)
	d, err = tree.Allow(100*second, 1, "free", "alice")
	require.NoError(t, err)
	require.False(t, d.Allowed, "45 more than it had: a debt")
	for s := Time(101); s < 200; s++ {
		_, err := tree.Allow(s*second, 1, "free", fmt.Sprint(s))
		require.NoError(t, err)
	}
	require.False(t, live())
	checkSums(t, tree.Stats(200*second))

	_, _, err = tree.Hold(0, 6, "free", "alice")
	require.ErrorIs(t, err, ErrCost)
	require.ErrorIs(t, h.Settle(0, -1), ErrCost)
}

func TestReplace(t *testing.T) {
	spec := perSecond("", 1000, 0, perSecond("acme", 600, 1000), perSecond("free", 100, 400, perSecond(Template, 5, 50)))
	tree := mustTree(t, spec)
	acme, err := tree.Leaf("acme")
	require.NoError(t, err)
	alice, err := tree.Leaf("free", "alice")
	require.NoError(t, err)
	d, err := acme.Allow(0, 300)
	require.NoError(t, err)
	require.Equal(t, int64(300), d.Remaining())
	_, err = alice.Allow(0, 4)
	require.NoError(t, err)

	bad := spec
	bad.Children = []Spec{perSecond("acme", 2000, 0)}
	require.ErrorAs(t, tree.Replace(0, bad), &Mistakes{})
	d, err = acme.Allow(0, 0)
	require.NoError(t, err)
	require.Equal(t, int64(300), d.Remaining(), "a bad spec changes nothing")

	half := perSecond("", 1000, 0, perSecond("acme", 300, 1000), perSecond("free", 100, 400, perSecond(Template, 5, 50)), perSecond("new", 100, 0))
	require.NoError(t, tree.Replace(0, half))
	d, err = acme.Allow(0, 0)
	require.NoError(t, err)
	require.Equal(t, int64(150), d.Remaining(), "half full before, half full after")
	d, err = alice.Allow(0, 2)
	require.NoError(t, err)
	require.False(t, d.Allowed, "4 of 5 are gone still")
	d, err = tree.Allow(0, 100, "new")
	require.NoError(t, err)
	require.True(t, d.Allowed, "a new class starts full, and its parents can pay")

	// acme gets children, free loses its template, new goes.
	split := perSecond("", 1000, 0, perSecond("acme", 300, 1000, perSecond("web", 200, 300), perSecond("api", 100, 300)), perSecond("free", 100, 400))
	h, _, err := tree.Hold(0, 0, "new")
	require.NoError(t, err)
	held, _, err := alice.Hold(0, 1)
	require.NoError(t, err)
	require.NoError(t, tree.Replace(0, split))
	_, err = acme.Allow(0, 1)
	require.ErrorIs(t, err, ErrNotLeaf)
	_, err = alice.Allow(0, 1)
	require.ErrorIs(t, err, ErrUnknown)
	require.NoError(t, h.Settle(second, 7), "a hold outlives its class")
	require.NoError(t, held.Settle(second, 0))
	require.Equal(t, 200, ask(t, tree, second, 200, "acme", "web"))
	checkSums(t, tree.Stats(second))
	require.NoError(t, tree.Replace(2*second, spec))
	require.Equal(t, 5, ask(t, tree, 3*second, 9, "free", "alice"))
	_, err = acme.Allow(4*second, 1)
	require.NoError(t, err)
	checkSums(t, tree.Stats(4*second))
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	tree := mustTree(t, perSecond("", 1000, 0, perSecond("acme", 600, 1000), perSecond("free", 100, 400, perSecond(Template, 5, 50))))
	acme, err := tree.Leaf("acme")
	require.NoError(t, err)
	now := Time(0)
	allocs := testing.AllocsPerRun(2000, func() {
		now += 500_000
		_, _ = acme.Allow(now, 1)
		_, _ = tree.Allow(now, 1, "free", "alice")
		_, _ = tree.Allow(now, 1, "free", "bob")
	})
	require.Zero(t, allocs)
}

func TestDefaults(t *testing.T) {
	s := Spec{Rate: algo.PerSecond(1000), Children: []Spec{
		{Name: "a", Rate: rate(5, 2*time.Second)},
		{Name: "b", Rate: rate(1, 24*time.Hour), Ceil: algo.PerSecond(7)},
		{Name: "t", Rate: algo.PerSecond(100), Children: []Spec{{Name: Template, Rate: algo.PerSecond(30)}}},
	}}.Resolved()
	require.Equal(t, int64(3), s.Children[0].Burst, "a second of 2.5/s, rounded up")
	require.Equal(t, s.Children[0].Rate, s.Children[0].Ceil)
	require.Equal(t, int64(1), s.Children[1].Burst)
	require.Equal(t, int64(1), s.Children[1].CBurst)
	require.Equal(t, int64(100+30), s.Children[2].Burst, "above a template: a second of rate and headroom")
	require.True(t, s.Children[2].Oversubscribed)
	require.Equal(t, DefaultMax, s.Children[2].Children[0].Max)
	require.Equal(t, int64(3+1+130+100), s.Burst, "the children's bursts and a tenth of a second")
	require.InDelta(t, 2.5, s.Children[0].Weight(), 1e-12)
	require.Equal(t, int64(100), s.Children[2].Reserve())
	require.Equal(t, int64(134), s.Reserve())
}

// Decisions of a tree of three levels by handle: what the leaf's own rate pays for, what the
// root lends, what two leaves get who ask for twice what the root has, and what the leaf's
// ceil refuses.
func BenchmarkAllow(b *testing.B) {
	const fast = 1_000_000_000
	slow, twice := rate(1, 24*time.Hour), rate(2, 24*time.Hour)
	for _, c := range []struct {
		name       string
		rate, ceil algo.Rate // of the leaves
		tenant     algo.Rate
		root       int64
		step       Time
		passes     float64 // how many of the requests
	}{
		{"own", algo.PerSecond(fast / 10), algo.PerSecond(fast), algo.PerSecond(fast / 2), fast, 20, 1},
		{"lent", slow, algo.PerSecond(fast), twice, fast, 20, 1},
		{"contended", slow, algo.PerSecond(fast / 1000), twice, fast / 1000, 500, .5},
		{"refused", slow, slow, twice, fast, 20, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			leaf := Spec{Name: "client", Rate: c.rate, Ceil: c.ceil, Burst: 1, CBurst: 100}
			other := leaf
			other.Name = "other"
			tree := mustTree(b, Spec{Rate: algo.PerSecond(c.root), Burst: 1000, Children: []Spec{
				{Name: "tenant", Rate: c.tenant, Ceil: algo.PerSecond(c.root), Burst: 2, CBurst: 1000, Children: []Spec{leaf, other}},
			}})
			var leaves [2]*Leaf
			for i, name := range []string{"client", "other"} {
				var err error
				leaves[i], err = tree.Leaf("tenant", name)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			now, passed, n := Time(0), 0, 0
			for b.Loop() {
				now += c.step
				if d, _ := leaves[n%2].Allow(now, 1); d.Allowed {
					passed++
				}
				n++
			}
			require.InDelta(b, c.passes*float64(n), passed, 2100+.01*float64(n))
		})
	}
}
