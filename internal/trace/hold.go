package trace

// limits say when a line is held no longer.
type limits struct {
	reorder  int64 // ns
	maxHeld  int
	maxBytes int
}

func (o Options) limits() limits {
	n := o.MaxHeld
	if n == 0 {
		n = defaultMaxHeld
	}
	return limits{reorder: int64(o.Reorder), maxHeld: n, maxBytes: 256 * n}
}

func (l limits) full(held, bytes int) bool {
	return held >= l.maxHeld || bytes >= l.maxBytes
}

// held is a line that waits for its turn.
type held struct {
	at    int64 // as stamped
	line  int   // breaks ties
	size  int
	class []string
	cost  int64
}

func (h *held) before(o *held) bool {
	return h.at < o.at || h.at == o.at && h.line < o.line
}

// hold puts lines in order. What it lets go depends on the lines given to it and
// on nothing else: after each add, take until it has none.
//
// INVARIANT: no line held is older than the one last taken; now never goes back.
type hold struct {
	limits
	spread bool // times are whole seconds
	ended  bool // no more will come: let all go

	ordered ring   // those that came no older than any before: all but a few of most traces
	heap    []held // the others; 4 children to a node: half the levels of 2, so fewer cache lines touched
	bytes   int
	newest  int64

	begun bool  // one was taken
	last  int64 // stamp of the one last taken, late ones aside
	now   int64 // the time it was given
	taken int64 // how many were taken of those stamped last
	equal int64 // how many stamped last are held
}

// add takes a line in, unless it is late: its second is over for every line that
// Reorder allows for.
func (h *hold) add(l held) (late bool) {
	if h.begun && (l.at < h.last || l.at == h.last && h.newest-l.at > h.reorder) {
		return true
	}
	if h.begun && l.at == h.last {
		h.equal++
	}
	if h.held() == 0 && !h.begun {
		h.newest = l.at
	}
	if h.held() > 0 && l.at >= h.newest {
		h.ordered.push(l)
	} else {
		h.push(l)
	}
	h.newest = max(h.newest, l.at)
	h.bytes += l.size
	return false
}

func (h *hold) held() int { return h.ordered.n + len(h.heap) }

// oldest returns the one that goes next, of those there are.
func (h *hold) oldest() (l *held, ordered bool) {
	if len(h.heap) == 0 || h.ordered.n > 0 && h.ordered.at(0).before(&h.heap[0]) {
		return h.ordered.at(0), true
	}
	return &h.heap[0], false
}

// take lets the oldest go, and says at what time, if one may go.
func (h *hold) take() (held, int64, bool) {
	if h.held() == 0 {
		return held{}, 0, false
	}
	first, ordered := h.oldest()
	if !h.ended && h.newest-first.at <= h.reorder && !h.full(h.held(), h.bytes) {
		return held{}, 0, false
	}
	at := first.at
	if !h.begun || at != h.last {
		h.last, h.taken = at, 0
		h.equal = h.ordered.count(at) + h.count(0, at)
	}
	if !h.begun {
		h.begun, h.now = true, at
	}
	var l held
	if ordered {
		l = h.ordered.pop()
	} else {
		l = h.pop()
	}
	h.bytes -= l.size
	if h.spread {
		// As many of this second as are known: all of them, unless the hold is
		// too small for it.
		at += h.taken * 1e9 / (h.taken + h.equal)
	}
	h.taken++
	h.equal--
	h.now = max(h.now, at)
	return l, h.now, true
}

// count counts the lines of the heap from i down that have the stamp of the oldest of
// all: they sit together at its top.
func (h *hold) count(i int, at int64) int64 {
	if i >= len(h.heap) || h.heap[i].at != at {
		return 0
	}
	n := int64(1)
	for child := 4*i + 1; child <= 4*i+4; child++ {
		n += h.count(child, at)
	}
	return n
}

func (h *hold) push(l held) {
	h.heap = append(h.heap, l)
	i := len(h.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !l.before(&h.heap[parent]) {
			break
		}
		h.heap[i] = h.heap[parent]
		i = parent
	}
	h.heap[i] = l
}

func (h *hold) pop() held {
	top := h.heap[0]
	n := len(h.heap) - 1
	l := h.heap[n]
	h.heap[n] = held{} // lets go of the class
	h.heap = h.heap[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		for c := child + 1; c < min(4*i+5, n); c++ {
			if h.heap[c].before(&h.heap[child]) {
				child = c
			}
		}
		if !h.heap[child].before(&l) {
			break
		}
		h.heap[i] = h.heap[child]
		i = child
	}
	h.heap[i] = l
	return top
}

// ring is a queue. Its room does not shrink: that for the most lines held is needed again.
type ring struct {
	room     []held // a power of two of them
	first, n int
}

func (r *ring) at(i int) *held { return &r.room[(r.first+i)&(len(r.room)-1)] }

func (r *ring) push(l held) {
	if r.n == len(r.room) {
		more := make([]held, max(64, 2*r.n))
		for i := range r.n {
			more[i] = *r.at(i)
		}
		r.room, r.first = more, 0
	}
	r.n++
	*r.at(r.n - 1) = l
}

func (r *ring) pop() held {
	l := *r.at(0)
	r.at(0).class = nil // lets go of it
	r.first++
	r.n--
	return l
}

// count counts the lines in front that have a stamp.
func (r *ring) count(at int64) (n int64) {
	for int(n) < r.n && r.at(int(n)).at == at {
		n++
	}
	return n
}
