package htb

import (
	"unsafe"

	"github.com/go-sluice/sluice/internal/hugepage"
)

// index finds the records of a table by the hashes of their names. It is cut up into
// segments of one size, each of which holds the hashes with the same low bits: it grows
// and shrinks by a segment at a time, so that no decision waits for all of it. The
// segments have no pointers for the collector to follow.
//
// The zero index is empty.
type index struct {
	dir []*segment // by the low bits of a hash: a power of two of them
}

const (
	segmentSize  = 2047 // a segment is 16 KiB then, which the allocator has
	segmentFull  = segmentSize * 13 / 16
	manySegments = 128 // 2 MiB
)

// segment is an open-addressed table.
//
// INVARIANT: between an entry and its home no place is empty.
type segment struct {
	n     int32
	depth int32 // how many low bits the hashes have in common
	at    [segmentSize]entry
}

// entry is a hash, above, and 1 + the slot of a record; 0 is none.
type entry uint64

func entryOf(hash uint32, slot int) entry { return entry(uint64(hash)<<32 | uint64(slot+1)) }

func (e entry) hash() uint32 { return uint32(e >> 32) }
func (e entry) slot() int    { return int(uint32(e)) - 1 }

// home returns where an entry would best be: by the high bits, as the low ones are the
// same in all of a segment.
func home(hash uint32) int { return int(uint64(hash) * segmentSize >> 32) }

func following(i int) int {
	if i++; i == segmentSize {
		return 0
	}
	return i
}

func (x *index) segment(hash uint32) *segment { return x.dir[int(hash)&(len(x.dir)-1)] }

func (x *index) add(hash uint32, slot int) {
	if len(x.dir) == 0 {
		x.dir = []*segment{{}}
	}
	s := x.segment(hash)
	for s.n >= segmentFull {
		x.split(hash)
		s = x.segment(hash)
	}
	s.put(entryOf(hash, slot))
}

func (s *segment) put(e entry) {
	i := home(e.hash())
	for s.at[i] != 0 {
		i = following(i)
	}
	s.at[i] = e
	s.n++
}

// where returns the place of an entry that is there.
func (s *segment) where(e entry) int {
	i := home(e.hash())
	for s.at[i] != e {
		i = following(i)
	}
	return i
}

// move says that a record has another slot.
func (x *index) move(hash uint32, from, to int) {
	s := x.segment(hash)
	s.at[s.where(entryOf(hash, from))] = entryOf(hash, to)
}

// del closes the gap that an entry leaves with those that may stand there: nothing is
// left behind, however many names come and go.
func (x *index) del(hash uint32, slot int) {
	s := x.segment(hash)
	gap := s.where(entryOf(hash, slot))
	for i := following(gap); s.at[i] != 0; i = following(i) {
		if distance(home(s.at[i].hash()), i) >= distance(gap, i) {
			s.at[gap], gap = s.at[i], i
		}
	}
	s.at[gap] = 0
	if s.n--; s.n < segmentFull/4 && s.depth > 0 {
		x.merge(hash)
	}
}

// distance returns how many places on from i j is.
func distance(i, j int) int {
	if j < i {
		j += segmentSize
	}
	return j - i
}

// split makes two segments of the one of a hash.
func (x *index) split(hash uint32) {
	s := x.segment(hash)
	bit := 1 << s.depth
	if bit == len(x.dir) {
		x.dir = append(x.dir, x.dir...)
	}
	was := s.at
	*s = segment{depth: s.depth + 1}
	t := &segment{depth: s.depth}
	if len(x.dir) > manySegments {
		hugepage.Advise(unsafe.Pointer(t), unsafe.Sizeof(*t))
	}
	for i := int(hash)&(bit-1) | bit; i < len(x.dir); i += 2 * bit {
		x.dir[i] = t
	}
	for _, e := range was {
		switch {
		case e == 0:
		case int(e.hash())&bit != 0:
			t.put(e)
		default:
			s.put(e)
		}
	}
}

// merge makes one segment of that of a hash and its other half, if they are small.
func (x *index) merge(hash uint32) {
	s := x.segment(hash)
	bit := 1 << (s.depth - 1)
	t := x.segment(hash ^ uint32(bit))
	if t.depth != s.depth || s.n+t.n > segmentFull/2 {
		return
	}
	for _, e := range t.at {
		if e != 0 {
			s.put(e)
		}
	}
	s.depth--
	for i := int(hash) & (bit - 1); i < len(x.dir); i += bit {
		x.dir[i] = s
	}
}
