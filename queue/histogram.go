package queue

import (
	"math/bits"
	"slices"
	"time"
)

// Histogram counts waiting times to within 3 %, in memory that does not grow with
// their number. The zero Histogram is empty.
type Histogram struct {
	octaves []*octave // those in use, from short times to long
	used    uint64    // which those are
	n       int64
	max     time.Duration
}

// octave counts the times of a power of two nanoseconds, by bucket. Times spread over few
// of them, so that most of what a histogram could hold is never made.
type octave [perOctave]int64

const perOctave = 32

func bucketOf(d time.Duration) int {
	if d < perOctave {
		return int(max(d, 0))
	}
	e := bits.Len64(uint64(d)) - 6 // d>>e lies in [32, 64)
	return (e+1)*perOctave + int(d>>e) - perOctave
}

// lowest returns the least delay of a bucket.
func lowest(bucket int) time.Duration {
	if bucket < 2*perOctave {
		return time.Duration(bucket)
	}
	e := bucket/perOctave - 1
	return time.Duration(bucket%perOctave+perOctave) << e
}

// Add counts one.
func (h *Histogram) Add(d time.Duration) {
	h.count(bucketOf(d))
	h.max = max(h.max, d)
}

func (h *Histogram) count(bucket int) {
	h.octave(bucket / perOctave)[bucket%perOctave]++
	h.n++
}

// octave returns the k-th octave, made if need be.
func (h *Histogram) octave(k int) *octave {
	i := bits.OnesCount64(h.used & (1<<k - 1))
	if h.used&(1<<k) == 0 {
		h.used |= 1 << k
		h.octaves = slices.Insert(h.octaves, i, new(octave))
	}
	return h.octaves[i]
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	used := o.used
	for _, from := range o.octaves {
		to := h.octave(bits.TrailingZeros64(used))
		for b, n := range from {
			to[b] += n
		}
		used &= used - 1
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Quantile returns a delay that a share q of all do not exceed, to within 3 %.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.n))
	used := h.used
	for _, o := range h.octaves {
		for b, n := range o {
			if rank -= n; rank < 0 {
				return min(lowest(bits.TrailingZeros64(used)*perOctave+b+1)-1, h.max)
			}
		}
		used &= used - 1
	}
	return h.max
}

// Max returns the longest.
func (h *Histogram) Max() time.Duration { return h.max }

// N returns how many there are.
func (h *Histogram) N() int64 { return h.n }

// Tally is a Histogram that is seldom touched: the latest few times are noted beside it,
// where a scheduler with many queues has them at hand. The zero Tally is empty.
type Tally struct {
	all   *Histogram // nil before it is needed; its max is not kept
	max   time.Duration
	n     uint16 // noted
	noted [15]uint16
}

// Add counts one.
func (t *Tally) Add(d time.Duration) {
	t.noted[t.n] = uint16(bucketOf(d))
	t.max = max(t.max, d)
	if t.n++; int(t.n) == len(t.noted) {
		t.flush()
	}
}

func (t *Tally) flush() {
	if t.all == nil {
		t.all = new(Histogram)
	}
	for _, bucket := range t.noted[:t.n] {
		t.all.count(int(bucket))
	}
	t.n = 0
}

// AddTo adds what was counted to a histogram.
func (t *Tally) AddTo(h *Histogram) {
	if t.all != nil {
		h.Merge(t.all)
	}
	for _, bucket := range t.noted[:t.n] {
		h.count(int(bucket))
	}
	h.max = max(h.max, t.max)
}
