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

// maxAlso is the largest number of further limits of a leaf.
const maxAlso = 8

// shape is the buckets of a key, in the script's units. It does not change.
type shape struct {
	rate, ceil bucket
	two        bool // with a ceil
	also       []bucket
	header     []byte // what the script is told of it
}

func newShape(rate, ceil Limit, also []Limit) (*shape, error) {
	s := &shape{two: ceil != Limit{}}
	var err error
	if s.rate, err = newBucket(rate); err != nil {
		return nil, err
	}
	if len(also) > maxAlso {
		return nil, fmt.Errorf("redisgcra: %d further limits, %d at most", len(also), maxAlso)
	}
	for i, limit := range also {
		b, err := newBucket(limit)
		if err != nil {
			return nil, fmt.Errorf("further limit %d: %w", i+1, err)
		}
		s.also = append(s.also, b)
	}
	if !s.two {
		s.ceil.den = 1 // of no size: it stands in for one where there are others
		s.header = s.appendHeader()
		return s, nil
	}
	if s.ceil, err = newBucket(ceil); err != nil {
		return nil, fmt.Errorf("ceil: %w", err)
	}
	if ceil.Rate.Compare(rate.Rate) < 0 || ceil.Burst < rate.Burst {
		return nil, fmt.Errorf("redisgcra: ceil %v with cburst %d is below the rate %v with burst %d", ceil.Rate, ceil.Burst, rate.Rate, rate.Burst)
	}
	s.header = s.appendHeader()
	return s, nil
}

func (s *shape) appendHeader() []byte {
	to := s.rate.append(number(nil, uint64(s.buckets())))
	if s.buckets() > 1 {
		to = s.ceil.append(to)
	}
	for i := range s.also {
		to = s.also[i].append(to)
	}
	return to
}

// buckets is how many the script keeps.
func (s *shape) buckets() int {
	switch {
	case len(s.also) > 0:
		return 2 + len(s.also)
	case s.two:
		return 2
	}
	return 1
}

// most is the largest cost that could ever pass.
func (s *shape) most() int64 {
	most := s.rate.burst
	if s.two {
		most = s.ceil.burst
	}
	for i := range s.also {
		most = min(most, s.also[i].burst)
	}
	return most
}

// appendRequest appends one request as the script reads it.
func (s *shape) appendRequest(to []byte, ways Ways, cost int64) []byte {
	if !s.two && len(s.also) > 0 && ways < settles {
		ways &= Own // the ceil that stands in would lend
	}
	to = number(to, uint64(ways))
	to = s.rate.cost(cost).append(to)
	if s.two {
		to = s.ceil.cost(cost).append(to)
	} else if len(s.also) > 0 {
		to = span{}.append(to)
	}
	for i := range s.also {
		to = s.also[i].cost(cost).append(to)
	}
	return to
}

// answer is what the script says of one request: the verdict, and what is then missing
// from each bucket.
type answer struct {
	verdict    uint64
	rate, ceil span
	also       []span
}

// Verdicts of the script.
const (
	refused = iota
	own
	borrowed
)

// width is the length of an answer in bytes.
func (s *shape) width() int { return 8 + 16*s.buckets() }

func (s *shape) parse(from string) answer {
	a := answer{verdict: parse(from), rate: parseSpan(from[8:])}
	if s.two {
		a.ceil = parseSpan(from[24:])
	}
	if len(s.also) > 0 {
		a.also = make([]span, len(s.also))
		for i := range a.also {
			a.also[i] = parseSpan(from[40+16*i:])
		}
	}
	return a
}

func parseSpan(from string) span { return span{parse(from), parse(from[8:])} }

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

// shapes keeps the shape of each set of limits in use, so that requests with equal
// limits share one, and are known by it to belong together.
type shapes struct {
	mu sync.RWMutex
	of map[limits]*shape
}

type limits struct {
	rate, ceil Limit
	also       string // the further ones, written out
}

func (c *shapes) get(rate, ceil Limit, also ...Limit) (*shape, error) {
	key := limits{rate: rate, ceil: ceil}
	for _, limit := range also {
		key.also += fmt.Sprintf("%v %d ", limit.Rate.Fraction(), limit.Burst)
	}
	c.mu.RLock()
	s, ok := c.of[key]
	c.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := newShape(rate, ceil, also)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.of[key]; ok {
		return s, nil
	}
	if c.of == nil || len(c.of) >= maxShapes {
		c.of = map[limits]*shape{}
	}
	c.of[key] = s
	return s, nil
}
