package htb

import (
	"hash/maphash"
	"math"
	"unsafe"

	"github.com/go-sluice/sluice/internal/hugepage"
)

// table has the leaves of a template as records. They lie without gaps, so that memory
// follows their number: who leaves is replaced by the last one. A leaf that something
// refers to (a hold, a claim) is a class for as long, and its record pinned.
//
// INVARIANT: pinned has exactly the slots whose record says so.
type table struct {
	n      int
	first  []record // the first chunkSize, or as many as there are
	rest   []*[chunkSize]record
	bases  []Ticks // what marks are counted from, of each so many; none before it matters
	index  index   // while there are many
	more   shelves
	limits int          // further ones that each leaf has
	seed   maphash.Seed // so that nobody can make up names that collide

	scratch *class   // the leaf that is decided on
	loaded  [3]Ticks // its TATs and mark, as it was loaded
	pinned  map[int]*class
	spare   []*class
	fresh   int // 1 + the slot of one that has not been decided on yet

	hand      int  // the slot that is looked at next
	calm, low Time // before these no leaf is at rest of those that the hand passed: in the round before, in this one
}

const (
	chunkSize  = 2048 // 128 KiB
	manyChunks = 16   // 2 MiB
	unindexed  = 16   // as many names are looked through one by one
	mostSpare  = 64
)

func newTable(limits int) *table {
	return &table{limits: limits, seed: maphash.MakeSeed(), pinned: map[int]*class{}, calm: math.MinInt64, low: math.MaxInt64}
}

func (t *table) record(slot int) *record {
	if slot < chunkSize {
		return &t.first[slot]
	}
	c := t.rest[slot/chunkSize-1]
	if c == nil { // never: see find
		return nil
	}
	return &c[slot%chunkSize]
}

// chunk returns the records whose marks are counted from the same base.
func (t *table) chunk(i int) []record {
	if i == 0 {
		return t.first
	}
	return t.rest[i-1][:]
}

// words are those of a record for further limits.
func (t *table) words(r *record) words { return words(t.more.piece(spotOf(&r.name))) }

// name is valid until a leaf comes or goes.
func (t *table) name(r *record) []byte {
	if n := r.what() &^ pinned; n != elsewhere {
		return r.name[:n]
	}
	at := spotOf(&r.name)
	return t.more.piece(at)[8*t.limits:][:at.name]
}

func (t *table) hash(slot int) uint32 { return uint32(maphash.Bytes(t.seed, t.name(t.record(slot)))) }

// find returns the slot of a name.
func (t *table) find(name string) (slot int, ok bool) {
	if len(t.index.dir) == 0 {
		for slot := range t.n {
			if string(t.name(t.record(slot))) == name {
				return slot, true
			}
		}
		return 0, false
	}
	hash := uint32(maphash.String(t.seed, name))
	s := t.index.segment(hash)
	if s == nil { // never: or else its first line would be looked at to be sure of that
		return 0, false
	}
	for i := home(hash); s.at[i] != 0; i = following(i) {
		if e := s.at[i]; e.hash() == hash && string(t.name(t.record(e.slot()))) == name {
			return e.slot(), true
		}
	}
	return 0, false
}

// insert adds a leaf that is new.
func (t *table) insert(name string) (slot int) {
	slot = t.n
	switch {
	case slot < len(t.first):
	case slot < chunkSize:
		t.resize(max(4, 2*slot))
	case slot == chunkSize*(1+len(t.rest)):
		chunk := new([chunkSize]record)
		if len(t.rest) >= manyChunks {
			hugepage.Advise(unsafe.Pointer(chunk), unsafe.Sizeof(*chunk))
		}
		t.rest = append(t.rest, chunk)
	}
	if i := slot / chunkSize; slot%chunkSize == 0 && i < len(t.bases) {
		t.bases[i] = Ticks{}
	}
	t.n++
	*t.record(slot) = record{at: math.MinInt64}
	t.setName(slot, name)
	switch {
	case len(t.index.dir) > 0:
		t.index.add(t.hash(slot), slot)
	case t.n > unindexed:
		for i := range t.n {
			t.index.add(t.hash(i), i)
		}
	}
	return slot
}

func (t *table) setName(slot int, name string) {
	r := t.record(slot)
	if len(name) <= inName && t.limits == 0 {
		copy(r.name[:], name)
		r.setWhat(r.what()&pinned | uint8(len(name)))
		return
	}
	at := t.more.add(slot, 8*t.limits+len(name))
	at.name = uint16(len(name))
	at.put(&r.name)
	r.setWhat(r.what()&pinned | elsewhere)
	copy(t.name(r), name)
	clear(t.words(r)[:8*t.limits])
}

func (t *table) dropName(slot int) {
	r := t.record(slot)
	if !r.onShelf() {
		return
	}
	at := spotOf(&r.name)
	if owner, moved := t.more.remove(at); moved {
		r := t.record(owner)
		at.name = spotOf(&r.name).name
		at.put(&r.name)
	}
}

// remove takes out a leaf that is not pinned.
func (t *table) remove(slot int) {
	last := t.n - 1
	if len(t.index.dir) > 0 {
		t.index.del(t.hash(slot), slot)
	}
	t.dropName(slot)
	if slot != last {
		t.move(last, slot)
	}
	t.n = last
	t.shrink()
}

// rename takes out a leaf that is not pinned, and puts a new one there.
func (t *table) rename(slot int, name string) {
	if len(t.index.dir) > 0 {
		t.index.del(t.hash(slot), slot)
	}
	t.dropName(slot)
	*t.record(slot) = record{at: math.MinInt64}
	t.setName(slot, name)
	if len(t.index.dir) > 0 {
		t.index.add(t.hash(slot), slot)
	}
}

// move puts the leaf in a slot into another.
func (t *table) move(from, to int) {
	if len(t.index.dir) > 0 {
		t.index.move(t.hash(from), from, to)
	}
	r := t.record(to)
	*r = *t.record(from)
	if r.onShelf() {
		t.more.own(spotOf(&r.name), to)
	}
	if x := t.pinned[from]; x != nil {
		delete(t.pinned, from)
		t.pinned[to], x.slot = x, to+1
		return
	}
	mark := t.mark(from, r)
	over, ok := mark.Sub(t.base(to / chunkSize)).Uint64()
	if r.mark = over; !ok { // far ahead of where the others there were counted from
		x := t.class()
		t.load(x, to, r)
		x.mark = mark
		t.pin(x)
	}
}

// shrink gives memory back, a part at a time. What is left has room for some that come.
func (t *table) shrink() {
	if spare := len(t.rest) - 1; spare >= 0 && t.n <= spare*chunkSize {
		t.rest[spare] = nil
		t.rest = t.rest[:spare]
	}
	if n := len(t.first); n > unindexed && t.n <= n/4 {
		t.resize(n / 2)
	}
	if t.n < unindexed/2 {
		t.index = index{}
	}
}

func (t *table) resize(first int) {
	records := make([]record, first)
	copy(records, t.first)
	t.first = records
}
