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
