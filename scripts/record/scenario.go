package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

// Sizes of packets, in bytes.
const (
	ethernet = 14            // the header that mtu does not count
	headers  = ethernet + 28 // and those of IPv4 and UDP
	largest  = 65535         // on the wire
)

// scenario is what a recording is of.
type scenario struct {
	name     string
	duration time.Duration
	step     time.Duration
	link     float64 // the root's rate, bytes per second
	mtu      int
	classes  []class // parents before children
	senders  []sender
}

// class is a class of the tree.
type class struct {
	htb.Spec
	parent string // a classid; "1:" for the root
	leaf   bool
}

// number is the classid as the kernel has it, which is the priority of a socket
// whose packets belong to it.
func (c class) number() uint32 {
	major, minor, _ := strings.Cut(c.Name, ":")
	high, _ := strconv.ParseUint(major, 16, 16)
	low, _ := strconv.ParseUint(minor, 16, 16)
	return uint32(high<<16 | low)
}

// qdisc is the handle of the qdisc that c belongs to.
func (c class) qdisc() string {
	major, _, _ := strings.Cut(c.Name, ":")
	return major + ":"
}

// sender is a flow and the leaf that it goes to.
type sender struct {
	config.Flow
	leaf class
}

// newScenario puts a tree and a load together. The error is config.Errors.
func newScenario(f *config.File, paths map[string][]string, l *config.LoadFile) (*scenario, error) {
	s := &scenario{name: f.Tree, duration: l.Duration, step: time.Second, link: f.Root.Rate.PerSecond(), mtu: 1500}
	byID := map[string]class{}
	var add func(spec htb.Spec, parent string)
	add = func(spec htb.Spec, parent string) {
		c := class{spec, parent, len(spec.Children) == 0}
		if parent == "" {
			c.parent = c.qdisc()
		}
		s.classes = append(s.classes, c)
		byID[c.Name] = c
		for _, child := range spec.Children {
			add(child, c.Name)
		}
	}
	add(f.Root, "")
	var errs config.Errors
	for i, flow := range l.Flows {
		say := func(format string, args ...any) {
			errs = append(errs, &config.Error{File: l.Name, Line: flow.Line, Path: fmt.Sprintf("flow %d", i+1), Msg: fmt.Sprintf(format, args...)})
		}
		id := ""
		if len(flow.Class) > 0 {
			id = flow.Class[len(flow.Class)-1] // the ids before it, if any, add nothing
		}
		c, ok := byID[id]
		switch {
		case !ok || flow.Clients > 0:
			say("the tree has no class %.40q: write the classid of a leaf of it, such as %s", id, s.classes[len(s.classes)-1].Name)
		case !c.leaf:
			say("class %s has children: write the classid of a leaf below it", id)
		case len(flow.Class) > 1 && strings.Join(flow.Class, "/") != strings.Join(paths[id], "/"):
			say("class %.80q is %q in the tree: write %s, which is enough", strings.Join(flow.Class, "/"), strings.Join(paths[id], "/"), id)
		}
		if flow.Cost.Min < headers || flow.Cost.Max > largest {
			say("costs from %d to %d are no sizes of packets: write %d to %d", flow.Cost.Min, flow.Cost.Max, headers, largest)
		}
		s.mtu = max(s.mtu, int(min(flow.Cost.Max, largest))-ethernet)
		s.senders = append(s.senders, sender{flow, c})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return s, nil
}

// batch returns what tc -batch makes the classes on dev with. Every number is
// written out, so that those of tc's defaults do not matter that depend on the
// machine: of a burst it reckons with the tick of the kernel's clock.
func (s *scenario) batch(dev string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "qdisc add dev %s root handle %s htb default 0\n", dev, s.classes[0].parent)
	for _, c := range s.classes {
		fmt.Fprintf(&b, "class add dev %s parent %s classid %s htb rate %dbps ceil %dbps burst %d cburst %d prio %d quantum %d\n",
			dev, c.parent, c.Name, c.Rate.Over(time.Second), c.Ceil.Over(time.Second), c.Burst, c.CBurst, c.Prio, c.Quantum)
	}
	for _, c := range s.classes {
		if c.leaf {
			fmt.Fprintf(&b, "qdisc add dev %s parent %s pfifo limit 1000\n", dev, c.Name)
		}
	}
	return b.String()
}

// schedule makes the packets of a flow, one after the other, at the times at
// which htbsim makes its requests.
type schedule struct {
	config.Flow
	random *rand.Rand
	at     time.Duration // of the next packet
	cost   int64         // of the next packet
	n      int64         // packets before it
	units  int64         // that came since began
	began  time.Duration // when the flow, or this phase of it, began
}

// newSchedule returns the schedule of the flow that is index-th in its file.
func newSchedule(f config.Flow, seed uint64, index int) *schedule {
	s := &schedule{Flow: f, random: rand.New(rand.NewPCG(seed, uint64(index))), at: f.From, began: f.From}
	switch f.Arrivals {
	case config.Burst:
		s.at = f.At
	case config.Poisson:
		s.at = f.From + s.gap()
	}
	s.draw()
	return s
}

func (s *schedule) draw() {
	s.cost = s.Cost.Min
	if s.Cost.Max > s.Cost.Min {
		s.cost += s.random.Int64N(s.Cost.Max - s.Cost.Min + 1)
	}
}

// gap draws the time between two packets of a Poisson process.
func (s *schedule) gap() time.Duration {
	mean := (float64(s.Cost.Min) + float64(s.Cost.Max)) / 2 / s.Rate.PerSecond()
	return time.Duration(min(s.random.ExpFloat64()*mean*1e9, math.MaxInt64/4))
}

// over says whether there is no further packet.
func (s *schedule) over() bool {
	return s.at >= s.To || s.Arrivals == config.Burst && s.n >= s.Count
}

// next goes on to the packet after this one. Of a backlogged flow, whose packets
// go when there is room, only the cost changes.
func (s *schedule) next() {
	s.n++
	switch s.Arrivals {
	case config.Poisson:
		s.at += s.gap()
	case config.Constant, config.OnOff:
		s.units += s.cost
		s.at = s.began + s.Rate.Takes(s.units) // from the begin, so that rounding does not add up
		if s.Arrivals == config.OnOff && s.at >= s.began+s.On {
			s.began += s.On + s.Off
			s.at, s.units = s.began, 0
		}
	case config.Burst:
		s.at = s.At + time.Duration(float64(s.Over)*float64(s.n)/float64(s.Count))
	}
	s.draw()
}
