package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/plot"
	"github.com/go-sluice/sluice/internal/report"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/sim"
	"github.com/go-sluice/sluice/internal/trace"
)

// runFlags are those of htbsim run.
type runFlags struct {
	tree, load string
	mode       string
	step       time.Duration
	seed       uint64
	top        int
	below      string
	outputFlags
	traceFlags

	redis, skew string
	gateways    int
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --tree FILE (--load FILE | --trace FILE)",
		Short: "Run a tree under a load or a trace",
		Long: `Run a tree under a load file, or replay a trace: an access log (common or combined
format) or a CSV with the header time,class,cost; .gz too. A trace whose classes
the tree does not name goes below the tree's template, or where --map says.

With --redis the run is in real time: gateways, each with a tree and a client of its
own, share what the tree keeps in Redis, and the load's duration is how long it takes.
Keys are of this run alone, and are taken away at its end.`,
		Args: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.tree, "tree", "", "the tree `file`; config/tree.yaml if not given")
	fl.StringVar(&f.load, "load", "", "the load `file`; load.yaml beside the tree if not given")
	fl.StringVar(&f.mode, "mode", "", "`police|shape`: allow or reject, or queue and delay (default police; shape for a tree of the kernel's kind)")
	fl.DurationVar(&f.step, "step", 0, "`length` of an entry of the series (default 1s; for a trace, so that there are at most 1000)")
	fl.Uint64Var(&f.seed, "seed", 1, "`number` that picks the random arrivals")
	fl.IntVar(&f.top, "top", 20, "`number` of children of a template with a row of their own")
	fl.StringVar(&f.below, "map", "", "put every class of the trace below the class of this `path`")
	fl.StringVar(&f.redis, "redis", "", "run in real time against the Redis at this `address`: host:port, the path of a Unix socket, or the word file for what the tree file says; a password is found where the file says")
	fl.IntVar(&f.gateways, "gateways", 1, "`number` of gateways that share the tree, each with the whole of it; with --redis")
	fl.StringVar(&f.skew, "skew", "", "`parts` in which the load is dealt out to gateways, such as 5,1,1,1 (default equal ones)")
	f.outputFlags.add(cmd, "the shares")
	f.traceFlags.add(cmd, ", instead of a load")
	completeFiles(cmd, "tree", "yaml", "yml")
	completeWords(cmd, "redis", inFile, "localhost:6379")
	completeFiles(cmd, "load", "yaml", "yml")
	completeWords(cmd, "mode", "police", "shape")
	return cmd
}

func completeFiles(cmd *cobra.Command, flag string, extensions ...string) {
	_ = cmd.MarkFlagFilename(flag, extensions...) // fails only for a flag that is not there
}

func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func (f *runFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	tree, err := readTree(f.tree, f.mode == "shape")
	if err != nil {
		return err
	}
	if tree.Semantics == "kernel" && f.redis != "" {
		return inputError{fmt.Errorf("%s: semantics kernel is for the shaper, and gateways police: --redis needs semantics: strict", tree.Name)}
	}
	if tree.Semantics == "kernel" && f.mode == "" {
		f.mode = "shape"
	}
	if tree.Semantics == "kernel" && f.mode == "police" {
		return inputError{fmt.Errorf("%s: semantics kernel is for the shaper: police needs semantics: strict", tree.Name)}
	}
	warn(cmd, tree.Warnings)
	outputs, err := f.open(f.inputs()...)
	if err != nil {
		return err
	}
	defer outputs.discard()
	measure, changed, doing := f.simulate, false, "simulating"
	if f.redis != "" {
		doing = "measuring"
		if measure, err = f.live(cmd, tree); err != nil {
			return err
		}
	} else {
		var one htb.Spec
		if one, changed = alone(tree.Root); changed {
			file := *tree
			file.Root = one
			tree = &file
		}
	}
	bar := newBar(cmd, f.quiet, doing)
	got, err := measure(cmd.Context(), tree, bar.set)
	bar.clear()
	if errors.Is(err, context.Canceled) && (got == nil || got.Seconds == 0) {
		return inputError{errors.New("htbsim: interrupted before the run began: nothing is written")}
	}
	if got == nil {
		return err
	}
	if err != nil {
		note := fmt.Sprintf("interrupted: this is what was measured until %v", time.Duration(got.Seconds*float64(time.Second)).Round(time.Millisecond))
		got.Notes = append(got.Notes, note)
	}
	if changed {
		got.Notes = append(got.Notes, "store and sync are simulated as if there were one gateway and its store always answered at once")
	}
	return f.write(cmd, got, outputs)
}

// alone returns s as the one gateway has it that there is on virtual time: with every
// class in its memory, and nobody to settle with.
func alone(s htb.Spec) (one htb.Spec, changed bool) {
	changed = s.Remote || s.Sync != 0
	s.Remote, s.Sync = false, 0
	s.Children = slices.Clone(s.Children)
	for i, c := range s.Children {
		below, differs := alone(c)
		s.Children[i], changed = below, changed || differs
	}
	return s, changed
}

// check finds mistakes among the flags.
func (f *runFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if err := noEmpty(cmd, "tree", "load", "trace", "json", "csv", "plot", "map", "redis", "skew"); err != nil {
		return err
	}
	switch {
	case f.load != "" && f.trace != "":
		return errors.New("htbsim: --load and --trace are two kinds of traffic: give one of them")
	case f.mode != "" && f.mode != "police" && f.mode != "shape":
		return fmt.Errorf("htbsim: --mode %q: write police or shape", f.mode)
	case changed("step") && f.step <= 0:
		return fmt.Errorf("htbsim: --step %v: write a positive duration, such as 1s", f.step)
	case f.top < 0 || f.top > 10_000:
		return fmt.Errorf("htbsim: --top %d: write a number from 0 to 10000", f.top)
	}
	err := cmp.Or(f.outputFlags.check(), f.onlyTrace(cmd, "class", "cost", "map", "reorder"), f.checkRedis(changed), f.traceFlags.check())
	if err != nil {
		return err
	}
	if f.below != "" {
		if _, err := htb.ParsePath(f.below); err != nil {
			return fmt.Errorf("htbsim: --map: %w", err)
		}
	}
	return nil
}

// inputs are the files that a run reads.
func (f *runFlags) inputs() []string {
	return []string{cmp.Or(f.tree, defaultTree), cmp.Or(f.load, besideTree(f.tree)), f.trace}
}

// mostSteps bounds the series, which are kept in memory for every row.
const mostSteps = 100_000

func (f *runFlags) simulate(ctx context.Context, tree *config.File, bar func(float64)) (*result.Run, error) {
	o := sim.Options{Step: f.step, Seed: f.seed, Top: f.top, Progress: bar}
	if f.trace == "" {
		load, err := readLoad(f.load, f.tree, tree.Unit)
		if err != nil {
			return nil, err
		}
		if o.Step == 0 {
			o.Step = time.Second
		}
		if err := steps(load.Duration, o.Step); err != nil {
			return nil, err
		}
		simulate := sim.Load
		if f.mode == "shape" {
			simulate = sim.Shape
		}
		run, err := simulate(ctx, tree, load, o)
		return run, wrong(err)
	}
	if f.below != "" {
		o.Map, _ = htb.ParsePath(f.below)
		if o.Map == nil { // the root
			o.Map = []string{}
		}
		if err := inner(tree.Root, o.Map); err != nil {
			return nil, inputError{fmt.Errorf("htbsim: --map %s: %s: %w", f.below, tree.Name, err)}
		}
	}
	t := f.options()
	s, err := input(trace.Scan(ctx, f.trace, t))
	if err != nil {
		return nil, err
	}
	if o.Step == 0 {
		o.Step = niceStep(s.Span)
	}
	if err := steps(s.Span, o.Step); err != nil {
		return nil, err
	}
	simulate := sim.Trace
	if f.mode == "shape" {
		simulate = sim.ShapeTrace
	}
	run, err := simulate(ctx, tree, f.trace, s, t, o)
	return run, wrong(err)
}

// inner says why the path names does not lead from s to a class with children.
func inner(s htb.Spec, names []string) error {
	for i, name := range names {
		at := slices.IndexFunc(s.Children, func(c htb.Spec) bool { return c.Name == name })
		if at < 0 {
			at = slices.IndexFunc(s.Children, func(c htb.Spec) bool { return c.Name == htb.Template })
		}
		if at < 0 {
			return fmt.Errorf("there is no class %q in the tree", htb.Path(names[:i+1]...))
		}
		s = s.Children[at]
	}
	if len(s.Children) == 0 {
		return errors.New("the class has no children that a trace could name: take the path of one that has")
	}
	return nil
}

// wrong makes err a mistake of the input, unless it says that the run was cut short.
func wrong(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return inputError{err}
}

func steps(span, step time.Duration) error {
	if n := span / step; n >= mostSteps {
		return fmt.Errorf("htbsim: %v in steps of %v are %d steps, the most is %d: write a longer --step", span, step, n, mostSteps)
	}
	return nil
}

// niceStep returns the shortest round step that makes at most 1000 of a span.
func niceStep(span time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, n := range []time.Duration{1, 2, 5, 10, 15, 20, 30} {
			if step := n * unit; span <= 1000*step {
				return step
			}
		}
	}
	return (span/1000/(24*time.Hour) + 1) * 24 * time.Hour
}

func (f *runFlags) write(cmd *cobra.Command, run *result.Run, files outputs) error {
	stdout := cmd.OutOrStdout()
	err := errors.Join(
		files.put(stdout, f.json, func(w io.Writer) error { return report.JSON(w, run) }),
		files.put(stdout, f.csv, func(w io.Writer) error { return report.CSV(w, run) }),
		files.put(stdout, f.plot, func(w io.Writer) error { return plot.Write(w, filepath.Ext(f.plot), run) }),
	)
	if err != nil {
		return err
	}
	if f.silent() {
		report.Notes(cmd.ErrOrStderr(), run)
		return nil
	}
	if err := report.Table(stdout, run, look(stdout)); err != nil {
		return cannotWrite("to standard output", err)
	}
	return nil
}
