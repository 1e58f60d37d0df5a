package monotonic

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine has two clocks that time passes by.
type machine struct {
	ns     float64 // by the system's
	counts float64
	rate   float64 // counts for a nanosecond
	rnd    *rand.Rand
	busy   float64 // how often something comes between two readings
}

func (m *machine) pass(ns float64) { m.ns, m.counts = m.ns+ns, m.counts+ns*m.rate }

func (m *machine) counter() uint64 {
	m.pass(5 + 5*m.rnd.Float64())
	return uint64(m.counts)
}

func (m *machine) system() int64 {
	if m.rnd.Float64() < m.busy {
		m.pass(m.rnd.Float64() * 1e6)
	}
	m.pass(10 + 20*m.rnd.Float64())
	return int64(m.ns)
}

// now is Now on a machine.
func (m *machine) now(k *keeper) int64 {
	if k.anchor != nil {
		if count := m.counter(); count-k.anchor.count < k.anchor.lasts {
			now, _ := k.anchor.late(count)
			return now
		}
	}
	return k.look(m.counter, m.system)
}

// run reads the time so often, some time apart, and returns by how much it was off at most.
func (m *machine) run(t *testing.T, k *keeper, n int, apart float64) (most float64) {
	last := int64(-1)
	for range n {
		m.pass(apart * m.rnd.ExpFloat64())
		before := m.ns
		now := m.now(k)
		require.GreaterOrEqual(t, now, last)
		last = now
		most = max(most, before-float64(now), float64(now)-m.ns)
	}
	return most
}

// Now does not go backwards, nor far from the system's clock, however often it is asked,
// whatever comes between, and while the system's clock is made to go faster or slower.
func TestAnchorsKeepTheTime(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		m := &machine{rate: 1.1 + 4*rnd.Float64(), rnd: rnd, busy: []float64{0, .01, .5}[seed%3], ns: 1e12 * rnd.Float64(), counts: 1e15 * rnd.Float64()}
		var k keeper
		m.run(t, &k, 10_000, 1e4) // until it is known how fast the counter is
		for _, apart := range []float64{20, 1e3, 1e6, 1e8, 1e12, 1e4} {
			m.run(t, &k, 2000, apart)
			require.NotNil(t, k.anchor)
			m.rate *= 1 + (rnd.Float64()-.5)/3e3 // as clocks are made to agree: by 500 ppm at most in all
			require.Less(t, m.run(t, &k, 20_000, apart), 5000., "seed %d, %g ns apart", seed, apart)
		}
		require.Zero(t, k.broken)
	}
}

// A counter that jumps, or stops, is found out, and what it did is over with the anchor.
func TestAnchorsOfABadCounter(t *testing.T) {
	for name, jump := range map[string]func(m *machine){
		"forward":  func(m *machine) { m.counts += 1e12 },
		"a little": func(m *machine) { m.counts += 1e9 },
		"15 ms":    func(m *machine) { m.counts += 2.6 * 15e6 },
		"11 ms":    func(m *machine) { m.counts += 2.6 * 11e6 },
		"3 ms":     func(m *machine) { m.counts += 2.6 * 3e6 },
		"back":     func(m *machine) { m.counts /= 2 },
		"slow":     func(m *machine) { m.rate *= .9 },
		"fast":     func(m *machine) { m.rate *= 1.1 },
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{rate: 2.6, rnd: rand.New(rand.NewPCG(1, 2)), counts: 1e15}
			var k keeper
			m.run(t, &k, 10_000, 1e4)
			require.NotNil(t, k.anchor)
			was := k.rate
			jump(m)
			last := int64(0)
			for i := range 5000 {
				m.pass(1e5)
				now := m.now(&k)
				require.Less(t, max(float64(now)-m.ns, m.ns-float64(now)), late*lasts)
				if i > 200 && m.rate == 2.6 { // 20 ms: a jump is over
					require.InDelta(t, m.ns, now, 5000)
				}
				require.GreaterOrEqual(t, now, last)
				last = now
			}
			m.run(t, &k, 1000, 1e4)
			require.Less(t, m.run(t, &k, 10_000, 1e4), 5000.)
			require.Less(t, k.broken, 3)
			require.NotNil(t, k.anchor)
			if m.rate == 2.6 {
				require.InEpsilon(t, was, k.rate, 1e-4)
			}
		})
	}
}

// A counter of less than a count a nanosecond is not used.
func TestAnchorsOfASlowCounter(t *testing.T) {
	m := &machine{rate: .9, rnd: rand.New(rand.NewPCG(1, 2))}
	var k keeper
	require.Less(t, m.run(t, &k, 10_000, 1e4), 5000.)
	require.Nil(t, k.anchor)
	require.Greater(t, k.broken, mostBroken)
}

// Nor is one that jumps before it is known how fast it is, as when a machine sleeps: it
// would be taken for a fast one, and time would stand still.
func TestAnchorsOfACounterThatJumpsEarly(t *testing.T) {
	for _, jump := range []float64{1e7, 1e9, 1e13} {
		for _, after := range []int{1, 500, 1500, 2500} {
			m := &machine{rate: 2.6, rnd: rand.New(rand.NewPCG(1, 2)), counts: 1e15}
			var k keeper
			m.run(t, &k, after, 1e4)
			m.counts += jump
			require.Less(t, m.run(t, &k, 40_000, 1e4), late*lasts)
			require.Less(t, m.run(t, &k, 10_000, 1e4), 5000.)
			require.NotNil(t, k.anchor)
		}
	}
}
