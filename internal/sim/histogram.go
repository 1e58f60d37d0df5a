package sim

import (
	"math/bits"
	"time"

	"github.com/go-sluice/sluice/internal/result"
)

// histogram counts delays to within 3 %, in memory that does not grow with their number.
type histogram struct {
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

func (h *histogram) add(d time.Duration) {
	b := bucketOf(d)
	for len(h.counts) <= b {
		h.counts = append(h.counts, 0)
	}
	h.counts[b]++
	h.n++
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for len(h.counts) < len(o.counts) {
		h.counts = append(h.counts, 0)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns a delay that a share q of all do not exceed, to within 3 %.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q * float64(h.n))
	for b, n := range h.counts {
		if rank -= n; rank < 0 {
			return min(lowest(b+1)-1, h.max)
		}
	}
	return h.max
}

func (h *histogram) delay() result.Delay {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return result.Delay{P50: ms(h.quantile(0.5)), P99: ms(h.quantile(0.99)), Max: ms(h.max)}
}
