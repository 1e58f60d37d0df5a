package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// recording is what came through, in the form it is written in.
type recording struct {
	Name    string             `json:"name"`
	Kernel  string             `json:"kernel"` // its version
	Step    float64            `json:"step"`   // seconds
	Seconds float64            `json:"seconds"`
	Unit    string             `json:"unit"`
	Leaves  map[string][]int64 `json:"leaves"`  // bytes per step
	Packets map[string]packets `json:"packets"` // of every class, at the end of the last step

	late time.Duration // the most that a clock woke up late
}

// packets are those that a class lent and borrowed. The kernel counts what a leaf
// sends within its own rate as lent, too.
type packets struct {
	Lent     int64 `json:"lended"`
	Borrowed int64 `json:"borrowed"`
}

// newRecording returns one of s with nothing in it yet.
func newRecording(s *scenario) *recording {
	r := &recording{
		Name: s.name, Step: s.step.Seconds(), Seconds: s.duration.Seconds(), Unit: "bytes",
		Leaves: map[string][]int64{}, Packets: map[string]packets{},
	}
	for _, c := range s.classes {
		if c.leaf {
			r.Leaves[c.Name] = newSeries(s)
		}
	}
	return r
}

// newSeries returns a zero for each step of s, the last of which may be a part of one.
func newSeries(s *scenario) series {
	return make(series, (s.duration+s.step-1)/s.step)
}

// series counts bytes per step.
type series []int64

// count adds bytes that came after so long; what came before the start or after
// the end is not of the recording.
func (s series) count(after, step time.Duration, bytes int64) {
	if i := int(after / step); after >= 0 && i < len(s) {
		s[i] += bytes
	}
}

func (r *recording) total() int64 {
	sum := int64(0)
	for _, leaf := range r.Leaves {
		for _, n := range leaf {
			sum += n
		}
	}
	return sum
}

// better tells whether r was disturbed less than o: a shaper that is woken up late
// loses what it could have sent, and never sends more for it.
func (r *recording) better(o *recording) bool {
	if r.total() != o.total() {
		return r.total() > o.total()
	}
	return r.late < o.late
}

func readRecording(path string) (*recording, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &recording{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("record: %s is no recording: %w", path, err)
	}
	return r, nil
}

// compare writes each leaf's total beside that of an earlier recording, and the
// difference as a part of what link, in bytes per second, could have carried; then
// the largest such difference of a single step.
func (r *recording) compare(w io.Writer, earlier *recording, link float64) {
	fmt.Fprintf(w, "%-10s %12s %12s %9s %14s\n", "leaf", "earlier", "now", "of link", "step at most")
	for _, id := range slices.SortedFunc(maps.Keys(r.Leaves), byClassID) {
		now, then := r.Leaves[id], earlier.Leaves[id]
		var sums [2]int64
		most := 0.0
		for i := range max(len(now), len(then)) {
			var step [2]int64
			for k, s := range [...][]int64{then, now} {
				if i < len(s) {
					step[k] = s[i]
				}
				sums[k] += step[k]
			}
			most = max(most, math.Abs(float64(step[1]-step[0]))/(link*r.Step))
		}
		fmt.Fprintf(w, "%-10s %12d %12d %+8.2f%% %13.2f%%\n", id, sums[0], sums[1],
			100*float64(sums[1]-sums[0])/(link*r.Seconds), 100*most)
	}
}

// byClassID puts shorter numbers, which are smaller, first.
func byClassID(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
