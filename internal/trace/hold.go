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

// held is a line that waits for its turn. There may be many, so its time and number are
// kept once, where it waits, and what lines of a class have in common once for them all.
type held struct {
	class *class
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
// Reorder allows for. Lines of one stamp go by their number.
func (h *hold) add(at int64, line int, l held) (late bool) {
	if h.begun && (at < h.last || at == h.last && h.newest-at > h.reorder) {
		return true
	}
	if h.lines.Len() == 0 && !h.begun {
		h.newest = at
	}
	h.lines.Add(at, line, l)
	if h.spread {
		if h.stamps == nil {
			h.stamps = map[int64]int64{}
		}
		h.stamps[at]++
	}
	h.newest = max(h.newest, at)
	h.bytes += l.class.size
	return false
}

// take lets the oldest go, and says at what time, if one may go.
func (h *hold) take() (held, int64, bool) {
	stamp, _, l, ok := h.lines.First()
	if !ok || !h.ended && h.newest-stamp <= h.reorder && !h.full(h.lines.Len(), h.bytes) {
		return held{}, 0, false
	}
	h.lines.Next()
	h.bytes -= l.class.size
	if !h.begun || stamp != h.last {
		h.last, h.taken = stamp, 0
	}
	if !h.begun {
		h.begun, h.now = true, stamp
	}
	at := stamp
	if h.spread {
		// As many of this second as are known: all of them, unless the hold is
		// too small for it.
		n := h.stamps[stamp]
		at += h.taken * 1e9 / (h.taken + n)
		if h.stamps[stamp] = n - 1; n == 1 {
			delete(h.stamps, stamp)
		}
	}
	h.taken++
	h.now = max(h.now, at)
	return l, h.now, true
}
