package config

import (
	"fmt"
	"os"
	"time"

	"github.com/go-sluice/sluice/algo"
	"gopkg.in/yaml.v3"
)

// LoadFile is what a load file says: who asks for how much, and when.
type LoadFile struct {
	Name     string // the file's, as given
	Duration time.Duration
	Flows    []Flow
}

// Flow is one stream of requests. Only what its Arrivals use is set.
type Flow struct {
	Line     int           // where it stands in the file
	Class    []string      // the leaf's path, root first; its last name is "*" when Clients > 0, and only then
	From, To time.Duration // requests arrive in [From, To); To defaults to the load's Duration
	Arrivals Arrivals
	Rate     algo.Rate // units that arrive, over all clients: of Poisson, Constant and OnOff (while on)
	Cost     Cost
	Clients  int           // leaves below a template; 0 when Class names one leaf
	Zipf     float64       // the clients' shares fall with rank to this power; 0: they are equal
	On, Off  time.Duration // of OnOff
	At, Over time.Duration // of Burst: when it starts, how long it takes
	Count    int64         // of Burst: requests
	Service  Service
}

// Cost is what a request costs: evenly distributed over Min to Max.
type Cost struct{ Min, Max int64 }

// Service is how long the downstream works on a request; a Mean of 0 is no time.
type Service struct {
	Mean        time.Duration
	Exponential bool // exponentially distributed, instead of Mean each time
}

// Arrivals is how the requests of a flow arrive. The zero Arrivals is none.
type Arrivals int

const (
	Backlogged Arrivals = iota + 1 // always one more waiting or to be retried
	Poisson                        // at random, independent of each other
	Constant                       // evenly spaced
	OnOff                          // evenly spaced for On, then none for Off, and so on
	Burst                          // Count requests evenly spaced over Over, from At
)

var arrivalNames = [...]string{"none", "backlogged", "poisson", "constant", "onoff", "burst"}

// String returns the word that stands for a in a load file.
func (a Arrivals) String() string {
	if a < 0 || int(a) >= len(arrivalNames) {
		return fmt.Sprintf("Arrivals(%d)", int(a))
	}
	return arrivalNames[a]
}

const (
	maxDuration = 10 * 365 * day // of a load
	maxFlows    = 1_000_000
	maxClients  = 10_000_000 // of a flow: each is a leaf, and a row in a table of shares
)

// ParseLoadFile reads the load file at path; see [ParseLoad].
func ParseLoadFile(path, unit string) (*LoadFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return ParseLoad(path, data, unit)
}

// ParseLoad reads a load file; name is what its mistakes call it, unit that of
// the tree it is for. The error is [Errors], everything that is wrong with the
// file. Whether the tree has the classes that it names is not looked at.
func ParseLoad(name string, data []byte, unit string) (*LoadFile, error) {
	r := &report{file: name}
	n, ok := r.document(data)
	if !ok {
		return nil, r.err()
	}
	m, ok := r.mapping(n, whole{}, n.Line, loadTop, "duration: 10s and, below it, flows: [{class: acme, arrivals: backlogged}]")
	if !ok {
		return nil, r.err()
	}
	l := &LoadFile{Name: name, Duration: m.interval("duration")}
	if l.Duration > maxDuration {
		m.wrong(m.get("duration"), "%v is over ten years: write at most %v", l.Duration, maxDuration)
	}
	if m.failed("duration") || l.Duration == 0 {
		l.Duration = maxDuration // so that no flow is too long for it
	}
	for i, n := range m.flows() {
		l.Flows = append(l.Flows, r.flow(n, i+1, l.Duration, unit))
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return l, nil
}

// flows returns the entries of the list of flows.
func (m *mapping) flows() []*yaml.Node {
	f := m.get("flows")
	switch {
	case f == nil || odd(f.node):
		return nil
	case f.node.Kind != yaml.SequenceNode:
		m.wrong(f, "is %s: write a list, such as %s", what(f.node), f.key.example)
		return nil
	case len(f.node.Content) == 0:
		m.wrong(f, "is an empty list: write such as %s", f.key.example)
	case len(f.node.Content) > maxFlows:
		m.wrong(f, "has %d entries, the most is %d", len(f.node.Content), maxFlows)
		return nil
	}
	return f.node.Content
}
