package trace

import "github.com/go-sluice/sluice/queue"

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

// hold puts lines in order. What it lets go depends on the lines given to it and
// on nothing else: after each add, take until it has none.
//
// INVARIANT: no line held is older than the one last taken; now never goes back.
type hold struct {
	limits
	spread bool // times are whole seconds
	ended  bool // no more will come: let all go

	lines  queue.Agenda[held] // by stamp and line
	stamps map[int64]int64    // how many of those have a stamp, if times are to be spread
	bytes  int
	newest int64

	begun bool  // one was taken
	last  int64 // stamp of the one last taken, late ones aside
	now   int64 // the time it was given
	taken int64 // how many were taken of those stamped last
}

// add takes a line in, unless it is late: its second is over for every line that
// Reorder allows for.
func (h *hold) add(l held) (late bool) {
	if h.begun && (l.at < h.last || l.at == h.last && h.newest-l.at > h.reorder) {
		return true
	}
	if h.lines.Len() == 0 && !h.begun {
		h.newest = l.at
	}
	h.lines.Add(l.at, l.line, l)
	if h.spread {
		if h.stamps == nil {
			h.stamps = map[int64]int64{}
		}
		h.stamps[l.at]++
	}
	h.newest = max(h.newest, l.at)
	h.bytes += l.size
	return false
}

// take lets the oldest go, and says at what time, if one may go.
func (h *hold) take() (held, int64, bool) {
	at, _, l, ok := h.lines.First()
	if !ok || !h.ended && h.newest-at <= h.reorder && !h.full(h.lines.Len(), h.bytes) {
		return held{}, 0, false
	}
	h.lines.Next()
	h.bytes -= l.size
	if !h.begun || at != h.last {
		h.last, h.taken = at, 0
	}
	if !h.begun {
		h.begun, h.now = true, at
	}
	if h.spread {
		// As many of this second as are known: all of them, unless the hold is
		// too small for it.
		n := h.stamps[l.at]
		at += h.taken * 1e9 / (h.taken + n)
		if h.stamps[l.at] = n - 1; n == 1 {
			delete(h.stamps, l.at)
		}
	}
	h.taken++
	h.now = max(h.now, at)
	return l, h.now, true
}
