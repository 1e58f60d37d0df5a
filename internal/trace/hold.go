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

	heap   []held // 4 children to a node: half the levels of 2, so fewer cache lines touched
	bytes  int
	newest int64

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
	if len(h.heap) == 0 && !h.begun {
		h.newest = l.at
	}
	h.newest = max(h.newest, l.at)
	if h.begun && l.at == h.last {
		h.equal++
	}
	h.bytes += l.size
	h.push(l)
	return false
}

// take lets the oldest go, and says at what time, if one may go.
func (h *hold) take() (held, int64, bool) {
	if len(h.heap) == 0 {
		return held{}, 0, false
	}
	if !h.ended && h.newest-h.heap[0].at <= h.reorder && !h.full(len(h.heap), h.bytes) {
		return held{}, 0, false
	}
	if at := h.heap[0].at; !h.begun {
		h.begun, h.last, h.now = true, at, at
		h.equal = h.count(0)
	} else if at != h.last {
		h.last, h.taken = at, 0
		h.equal = h.count(0)
	}
	l := h.pop()
	h.bytes -= l.size
	at := l.at
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

// count counts the lines with the stamp of the oldest, which sit together at the
// top of the heap.
func (h *hold) count(i int) int64 {
	if i >= len(h.heap) || h.heap[i].at != h.heap[0].at {
		return 0
	}
	n := int64(1)
	for child := 4*i + 1; child <= 4*i+4; child++ {
		n += h.count(child)
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
