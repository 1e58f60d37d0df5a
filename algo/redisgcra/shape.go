package redisgcra

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// maxShapes bounds the cache of limits in the script's units. Limits come from
// configuration, so there are few; whoever makes them up loses the cache, no more.
const maxShapes = 4096

// shape is the buckets of a key, in the script's units. It does not change.
type shape struct {
	rate, ceil bucket
	two        bool   // with a ceil
	header     []byte // what the script is told of it
}

func newShape(rate, ceil Limit) (*shape, error) {
	s := &shape{two: ceil != Limit{}}
	var err error
	if s.rate, err = newBucket(rate); err != nil {
		return nil, err
	}
	if !s.two {
		s.header = s.rate.append(number(nil, 1))
		return s, nil
	}
	if s.ceil, err = newBucket(ceil); err != nil {
		return nil, fmt.Errorf("ceil: %w", err)
	}
	if ceil.Rate.Compare(rate.Rate) < 0 || ceil.Burst < rate.Burst {
		return nil, fmt.Errorf("redisgcra: ceil %v with cburst %d is below the rate %v with burst %d", ceil.Rate, ceil.Burst, rate.Rate, rate.Burst)
	}
	s.header = s.ceil.append(s.rate.append(number(nil, 2)))
	return s, nil
}

// most is the largest cost that could ever pass.
func (s *shape) most() int64 {
	if s.two {
		return s.ceil.burst
	}
	return s.rate.burst
}

// appendRequest appends one request as the script reads it.
func (s *shape) appendRequest(to []byte, ways Ways, cost int64) []byte {
	to = number(to, uint64(ways))
	to = s.rate.cost(cost).append(to)
	if s.two {
		to = s.ceil.cost(cost).append(to)
	}
	return to
}

// answer is what the script says of one request: the verdict, and what is then missing
// from each bucket.
type answer struct {
	verdict    uint64
	rate, ceil span
}

// Verdicts of the script.
const (
	refused = iota
	own
	borrowed
)

// width is the length of an answer in bytes.
func (s *shape) width() int {
	if s.two {
		return 5 * 8
	}
	return 3 * 8
}

func (s *shape) parse(from string) answer {
	a := answer{verdict: parse(from), rate: span{parse(from[8:]), parse(from[16:])}}
	if s.two {
		a.ceil = span{parse(from[24:]), parse(from[32:])}
	}
	return a
}

func (b *bucket) append(to []byte) []byte { return number(b.size.append(to), b.den) }

func (s span) append(to []byte) []byte { return number(number(to, s.us), s.num) }

// number appends n, which is below 2^53, as Lua's struct packs "<d".
func number(to []byte, n uint64) []byte { return float(to, float64(n)) }

func float(to []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(f))
}

func parse(from string) uint64 { return uint64(max(0, parseFloat(from))) }

func parseFloat(from string) float64 {
	_ = from[7]
	var bits uint64
	for i := range 8 {
		bits |= uint64(from[i]) << (8 * i)
	}
	return math.Float64frombits(bits)
}

// shapes keeps the shape of each pair of limits in use, so that requests with equal
// limits share one, and are known by it to belong together.
type shapes struct {
	mu sync.RWMutex
	of map[[2]Limit]*shape // rate, ceil
}

func (c *shapes) get(rate, ceil Limit) (*shape, error) {
	limits := [2]Limit{rate, ceil}
	c.mu.RLock()
	s, ok := c.of[limits]
	c.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := newShape(rate, ceil)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.of[limits]; ok {
		return s, nil
	}
	if c.of == nil || len(c.of) >= maxShapes {
		c.of = map[[2]Limit]*shape{}
	}
	c.of[limits] = s
	return s, nil
}
