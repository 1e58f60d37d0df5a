package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/compare"
	"github.com/go-sluice/sluice/internal/plot"
	"github.com/go-sluice/sluice/internal/report"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/sim"
	"github.com/go-sluice/sluice/internal/trace"
)

// stepInput is what htbsim compare runs without a load: an idle time and a jump, a steady
// overload, and one after the other.
var stepInput = []struct{ name, load string }{
	{"5 s idle, then 200 requests in 100 ms", `duration: 5100ms
flows: [{class: all, arrivals: burst, at: 5s, count: 200, over: 100ms}]`},
	{"on fresh limiters: 300/s for 2 s", `duration: 2s
flows: [{class: all, arrivals: constant, rate: 300/s}]`},
	{"on the same limiters one after the other: 5 s idle, 200 requests in 100 ms, then 300/s for 2 s", `duration: 7100ms
flows:
  - {class: all, arrivals: burst, at: 5s, count: 200, over: 100ms}
  - {class: all, from: 5100ms, arrivals: constant, rate: 300/s}`},
}

// compareFlags are those of htbsim compare.
type compareFlags struct {
	load       string
	rate, peak string
	burst      int64
	queue      int64
	algorithms []string
	step       time.Duration
	seed       uint64
	outputFlags
	traceFlags
}

func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare [--load FILE | --trace FILE] [--rate RATE] [--burst N]",
		Short: "Run the flat algorithms side by side on the same arrivals",
		Long: `Run the flat algorithms side by side: one limiter of each decides on all that
arrives, whatever its class. What each let through is measured against the promise
that every window of length w sees at most burst + rate * w: the table has the most
that any window had above rate * w. While that is at most the burst the promise is kept.

Without a load or a trace it runs a step input: 5 s idle, then 200 requests in 100 ms;
300/s for 2 s on fresh limiters; and both, one after the other, on the same ones.

Algorithms that count in windows take the burst as their limit, and as their window
the time in which the rate brings it. The dual leaky bucket has the peak rate, with half
the burst, as a second limit.`,
		Example: `  htbsim compare
  htbsim compare --load load.yaml --rate 500/s --burst 100 --plot compare.html
  htbsim compare --trace tokens.csv --rate 10000/s --burst 20000 --algorithms gcra,sliding-log`,
		Args: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.load, "load", "", "the load `file`; a step input if neither it nor a trace is given")
	fl.StringVar(&f.rate, "rate", "", "the `rate` promised, such as 100/s; needed with a load or a trace (else 100/s)")
	fl.Int64Var(&f.burst, "burst", 0, "`units` promised at once (default: one second of the rate, at least 1; 200 for the step input)")
	fl.StringSliceVar(&f.algorithms, "algorithms", nil, "which to run, a list with commas of `"+strings.Join(compare.Flags(), "|")+"` (default all)")
	fl.StringVar(&f.peak, "peak", "", "the peak `rate` of the dual leaky bucket (default: twice the rate)")
	fl.Int64Var(&f.queue, "queue", 0, "how many `units` the leaky bucket as a queue holds (default: five bursts)")
	fl.DurationVar(&f.step, "step", 0, "`length` of an entry of the series (default: so that there are at most 500)")
	fl.Uint64Var(&f.seed, "seed", 1, "`number` that picks the random arrivals")
	f.outputFlags.add(cmd, "what was let through over time")
	f.traceFlags.add(cmd, ", instead of a load")
	completeFiles(cmd, "load", "yaml", "yml")
	completeWords(cmd, "algorithms", compare.Flags()...)
	return cmd
}

func (f *compareFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	outputs, err := f.open(f.load, f.trace)
	if err != nil {
		return err
	}
	defer outputs.discard()
	bar := newBar(cmd, f.quiet, "simulating")
	all, err := f.compare(cmd.Context(), bar.set)
	bar.clear()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return inputError{errors.New("htbsim: interrupted: nothing is written")}
		}
		return err
	}
	stdout := cmd.OutOrStdout()
	err = errors.Join(
		outputs.put(stdout, f.json, func(w io.Writer) error { return report.ComparisonsJSON(w, all) }),
		outputs.put(stdout, f.csv, func(w io.Writer) error { return report.ComparisonsCSV(w, all) }),
		outputs.put(stdout, f.plot, func(w io.Writer) error { return plot.WriteComparisons(w, filepath.Ext(f.plot), all) }),
	)
	if err != nil {
		return err
	}
	if f.silent() {
		for _, c := range all {
			report.ComparisonNotes(cmd.ErrOrStderr(), c)
		}
		return nil
	}
	if err := report.Comparisons(stdout, all, look(stdout)); err != nil {
		return cannotWrite("to standard output", err)
	}
	return nil
}

// check finds mistakes among the flags.
func (f *compareFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if err := noEmpty(cmd, "load", "trace", "rate", "peak", "json", "csv", "plot"); err != nil {
		return err
	}
	switch {
	case f.load != "" && f.trace != "":
		return errors.New("htbsim: --load and --trace are two kinds of traffic: give one of them")
	case (f.load != "" || f.trace != "") && f.rate == "":
		return errors.New("htbsim: --rate is missing: write what the limit is to be, such as --rate 100/s --burst 200")
	case changed("burst") && f.burst < 1:
		return fmt.Errorf("htbsim: --burst %d: write a number of 1 or more", f.burst)
	case changed("queue") && f.queue < 1:
		return fmt.Errorf("htbsim: --queue %d: write a number of 1 or more", f.queue)
	case changed("step") && f.step <= 0:
		return fmt.Errorf("htbsim: --step %v: write a positive duration, such as 100ms", f.step)
	case changed("algorithms") && len(f.algorithms) == 0:
		return fmt.Errorf("htbsim: --algorithms has an empty value: write some of %s, or leave the flag out", strings.Join(compare.Flags(), ", "))
	}
	for i, a := range f.algorithms {
		a = strings.TrimSpace(a)
		f.algorithms[i] = a
		if !slices.Contains(compare.Flags(), a) {
			return fmt.Errorf("htbsim: --algorithms %q: write some of %s", a, strings.Join(compare.Flags(), ", "))
		}
		if slices.Contains(f.algorithms[:i], a) {
			return fmt.Errorf("htbsim: --algorithms: %s is there twice: take one out", a)
		}
	}
	return cmp.Or(f.outputFlags.check(), f.onlyTrace(cmd, "class", "cost", "reorder"), f.traceFlags.check())
}

// setup is the limit that the flags promise, of what unit counts.
func (f *compareFlags) setup(unit string) (compare.Setup, error) {
	s := compare.Setup{Limit: algo.Limit{Rate: algo.PerSecond(100), Burst: f.burst}, Queue: f.queue, Unit: unit}
	for _, r := range []struct {
		flag, text string
		to         *algo.Rate
	}{{"rate", f.rate, &s.Rate}, {"peak", f.peak, &s.Peak.Rate}} {
		if r.text == "" {
			continue
		}
		// Units may be bytes, as far as one can tell.
		rate, err := config.ParseRate(r.text, config.Bytes)
		if err != nil {
			return s, fmt.Errorf("htbsim: --%s %s", r.flag, strings.TrimPrefix(err.Error(), "config: rate "))
		}
		if _, err := config.ParseRate(r.text, unit); err != nil && unit == "requests" {
			return s, fmt.Errorf("htbsim: --%s %q is in bits or bytes, and what is counted here is requests: write a plain number, or --cost bytes for an access log", r.flag, r.text)
		}
		*r.to = rate
	}
	if s.Burst == 0 {
		if s.Burst = s.Rate.Over(time.Second); f.load == "" && f.trace == "" {
			s.Burst = 200
		}
	}
	if s.Peak.Rate.IsZero() && (len(f.algorithms) == 0 || slices.Contains(f.algorithms, "dual-leaky")) {
		perNano := s.Rate.Fraction()
		var err error
		if s.Peak.Rate, err = algo.NewRate(2*perNano.Num().Int64(), time.Duration(perNano.Denom().Int64())); err != nil {
			return s, fmt.Errorf("htbsim: --peak is missing: twice the rate is too fast, write one, or leave dual-leaky out of --algorithms")
		}
	}
	s.Peak.Burst = max(1, s.Burst/2)
	s.Queue = cmp.Or(s.Queue, 5*min(s.Burst, math.MaxInt64/5))
	return s, nil
}

// compare runs all that is to be compared.
func (f *compareFlags) compare(ctx context.Context, progress func(float64)) ([]*result.Comparison, error) {
	switch {
	case f.trace != "":
		c, err := f.compareTrace(ctx, progress)
		return []*result.Comparison{c}, err
	case f.load != "":
		load, err := input(config.ParseLoadFile(f.load, config.Bytes))
		if err != nil {
			return nil, err
		}
		c, err := f.compareLoad(ctx, f.load, load, progress)
		return []*result.Comparison{c}, err
	}
	var all []*result.Comparison
	for _, s := range stepInput {
		load, err := config.ParseLoad("(built-in)", []byte(s.load), "requests")
		if err != nil {
			return nil, err
		}
		c, err := f.compareLoad(ctx, s.name, load, progress)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (f *compareFlags) compareLoad(ctx context.Context, name string, load *config.LoadFile, progress func(float64)) (*result.Comparison, error) {
	unit := "requests"
	if slices.ContainsFunc(load.Flows, func(x config.Flow) bool { return x.Cost.Max > 1 }) {
		unit = "units"
	}
	arrivals, err := sim.Arrivals(load, f.seed)
	if err != nil {
		return nil, inputError{err}
	}
	c, err := f.contest(unit, load.Duration)
	if err != nil {
		return nil, err
	}
	n := 0
	for at, cost := range arrivals {
		if n++; n%4096 == 0 {
			if progress(float64(at) / float64(load.Duration)); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		c.Ask(at, cost)
	}
	out, err := c.Result(name)
	if err != nil {
		return nil, inputError{fmt.Errorf("htbsim: %s: %s", name, strings.TrimPrefix(err.Error(), "compare: "))}
	}
	return out, nil
}

func (f *compareFlags) compareTrace(ctx context.Context, progress func(float64)) (*result.Comparison, error) {
	t := f.options()
	s, err := input(trace.Scan(ctx, f.trace, t))
	if err != nil {
		return nil, err
	}
	c, err := f.contest(f.unit(s.Format), s.Span)
	if err != nil {
		return nil, err
	}
	note, err := eachRequest(ctx, f.trace, s, t, progress, func(r trace.Request) { c.Ask(r.At, r.Cost) })
	if err != nil {
		return nil, err
	}
	out, err := c.Result(fmt.Sprintf("%s, %d requests", f.trace, s.Lines))
	if err != nil {
		return nil, inputError{fmt.Errorf("htbsim: %s: %s", f.trace, strings.TrimPrefix(err.Error(), "compare: "))}
	}
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	return out, nil
}

// contest sets the algorithms up for arrivals that take so long.
func (f *compareFlags) contest(unit string, length time.Duration) (*compare.Contest, error) {
	setup, err := f.setup(unit)
	if err != nil {
		return nil, err
	}
	step := cmp.Or(f.step, fineStep(length))
	if err := steps(length, step); err != nil {
		return nil, err
	}
	c, err := compare.New(setup, f.algorithms, step, length)
	if err != nil {
		return nil, fmt.Errorf("htbsim: %s; --algorithms picks those that can", strings.ReplaceAll(err.Error(), "algo: ", ""))
	}
	return c, nil
}

// fineStep returns the shortest of 1, 2 or 5 times a power of ten of microseconds
// that makes at most 500 of a span.
func fineStep(span time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if span/500 < n*unit {
				return n * unit
			}
		}
	}
}
