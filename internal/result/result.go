// Package result is what one simulated run measured: the numbers behind the
// table, the JSON, the CSV and the plots, which all read this one structure.
package result

// Run is one run of a tree under a load.
// INVARIANT: in every row Wants = Gets + Rejected + Dropped + Expired + Queued
// and Own = Gets - Borrows.
type Run struct {
	Tree    string  // the tree's name
	Mode    string  // "police" or "shape"
	Unit    string  // what costs count: "requests", "bytes", "tokens"
	Seconds float64 // how much time was simulated
	Step    float64 // seconds per entry of a series; the last step may be cut short
	Rows    []Row   // every class, the root first, each class before its children
	Notes   []string

	Gateways *Gateways // of a run of gateways that share a Redis; nil for one on virtual time
}

// Row is one class. Sums are over its subtree, in cost units; Own, Borrows and
// Lends are the class's own.
type Row struct {
	Path                               string // "global" for the root, else "acme", "free/alice", "free/*"
	Depth                              int    // 0 for the root
	Leaf                               bool
	Rest                               bool    // the row path/*: every child of a template without a row of its own
	Rate                               float64 // guarantee, units per second (of one child, where Rest)
	Ceil                               float64 // ceiling, units per second (of one child, where Rest)
	Prio                               int
	Wants                              int64
	Gets                               int64
	Rejected, Dropped, Expired, Queued int64
	Own, Borrows, Lends                int64
	Fair                               float64 // the ideal allocation
	Delay                              Delay
	Series                             Series
	Shared                             *Shared // nil unless gateways share the class
}

// Delay holds quantiles of the time spent queued, in milliseconds; zero in police mode.
type Delay struct{ P50, P99, Max float64 }

// Series holds one entry per step.
type Series struct {
	Wants, Gets []int64
	Fair        []float64
}

// Comparison is flat algorithms, one after the other, under the same arrivals.
// INVARIANT: in every row Wants = Accepted + Rejected, with the Wants of the Comparison.
type Comparison struct {
	Load    string // what arrived, in a line
	Unit    string // what costs count
	Rate    string // as people write it: "100/s"
	Burst   int64
	Seconds float64 // that the arrivals took
	Step    float64 // seconds per entry of a series
	Wants   int64
	Rows    []Flat
	Notes   []string

	// One entry per step: the units until its end that came, and the most of them that can
	// have been let through, at once or later, where no window sees more than its promise.
	Arrived  []int64
	Promised []float64
}

// Flat is one algorithm.
type Flat struct {
	Flag, Name         string // "leaky-meter", "leaky bucket as a meter"
	Set                string // what rate and burst became: "200 in 2s"
	Accepted, Rejected int64
	Worst              Window
	Delay              float64 // the longest, milliseconds
	State              int     // bytes, at most
	Series             []int64 // units let through, until the end of each step
}

// Window is the one in which most was let through above rate*window.
type Window struct {
	Seconds float64
	Units   int64
	Above   float64 // Units - rate*Seconds
	Broken  bool    // Above is more than the burst, exactly: some window saw more than was promised
}
