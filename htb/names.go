package htb

import "encoding/binary"

// shelves keep what does not fit into the records of a table: names of more than
// inName bytes, and the state of further limits. A piece lies on the shelf of its size,
// without a gap before it or behind: who takes one away moves the last into its place.
type shelves []shelf // by size, in steps of pieceStep

type shelf struct {
	chunks [][]byte
	n      int // pieces
}

const (
	pieceStep   = 16
	pieceOwner  = 4 // bytes in front that say whose it is
	shelfPieces = 64
)

// spot is where a piece lies, and how long the name in it is.
type spot struct {
	shelf, name uint16
	piece       uint32
}

func (s spot) put(b *[inName]byte) {
	binary.LittleEndian.PutUint32(b[0:], s.piece)
	binary.LittleEndian.PutUint16(b[4:], s.shelf)
	binary.LittleEndian.PutUint16(b[6:], s.name)
}

func spotOf(b *[inName]byte) spot {
	return spot{
		piece: binary.LittleEndian.Uint32(b[0:]),
		shelf: binary.LittleEndian.Uint16(b[4:]),
		name:  binary.LittleEndian.Uint16(b[6:]),
	}
}

func (s *shelf) piece(size, i int) []byte {
	at := i % shelfPieces * size
	return s.chunks[i/shelfPieces][at : at+size : at+size]
}

func (s shelves) all(at spot) []byte {
	return s[at.shelf].piece(int(at.shelf+1)*pieceStep, int(at.piece))
}

// piece returns what the owner put there, and maybe a few bytes more.
func (s shelves) piece(at spot) []byte { return s.all(at)[pieceOwner:] }

// own says whose a piece is.
func (s shelves) own(at spot, owner int) {
	binary.LittleEndian.PutUint32(s.all(at), uint32(owner))
}

// add makes room for size bytes.
func (s *shelves) add(owner, size int) spot {
	k := (size + pieceOwner - 1) / pieceStep
	for len(*s) <= k {
		*s = append(*s, shelf{})
	}
	f := &(*s)[k]
	if f.n == len(f.chunks)*shelfPieces {
		f.chunks = append(f.chunks, make([]byte, shelfPieces*(k+1)*pieceStep))
	}
	at := spot{shelf: uint16(k), piece: uint32(f.n)}
	f.n++
	s.own(at, owner)
	return at
}

// remove takes a piece away. If another has moved into its place, it returns whose.
func (s shelves) remove(at spot) (owner int, moved bool) {
	f, hole := &s[at.shelf], s.all(at)
	f.n--
	if f.n != int(at.piece) {
		copy(hole, f.piece(len(hole), f.n))
		owner, moved = int(binary.LittleEndian.Uint32(hole)), true
	}
	if spare := len(f.chunks) - 2; spare >= 0 && f.n <= spare*shelfPieces { // one stays for the next name
		f.chunks[spare+1] = nil
		f.chunks = f.chunks[:spare+1]
	}
	return owner, moved
}
