package queue

import (
	"math/bits"
	"time"
)

// Histogram counts waiting times to within 3 %, in memory that does not grow with
// their number. The zero Histogram is empty.
type Histogram struct {
	counts []int64 // by bucket: 32 for each power of two nanoseconds
	n      int64
	max    time.Duration
}

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
	b := bucketOf(d)
	for len(h.counts) <= b {
		h.counts = append(h.counts, 0)
	}
	h.counts[b]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds what o counted.
func (h *Histogram) Merge(o *Histogram) {
	for len(h.counts) < len(o.counts) {
		h.counts = append(h.counts, 0)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Quantile returns a delay that a share q of all do not exceed, to within 3 %.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.n))
	for b, n := range h.counts {
		if rank -= n; rank < 0 {
			return min(lowest(b+1)-1, h.max)
		}
	}
	return h.max
}

// Max returns the longest.
func (h *Histogram) Max() time.Duration { return h.max }

// N returns how many there are.
func (h *Histogram) N() int64 { return h.n }
