package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
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
	tree, load, trace string
	mode              string
	step              time.Duration
	seed              uint64
	top               int
	json, csv, plot   string
	quiet             bool

	class, cost, below string
	reorder            time.Duration

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
	fl.StringVar(&f.trace, "trace", "", "the trace `file`, instead of a load")
	fl.StringVar(&f.mode, "mode", "", "`police|shape`: allow or reject, or queue and delay (default police; shape for a tree of the kernel's kind)")
	fl.DurationVar(&f.step, "step", 0, "`length` of an entry of the series (default 1s; for a trace, so that there are at most 1000)")
	fl.Uint64Var(&f.seed, "seed", 1, "`number` that picks the random arrivals")
	fl.IntVar(&f.top, "top", 20, "`number` of children of a template with a row of their own")
	fl.StringVar(&f.json, "json", "", "write the result as JSON to this `file`, - for standard output")
	fl.StringVar(&f.csv, "csv", "", "write the series as CSV to this `file`, - for standard output")
	fl.StringVar(&f.plot, "plot", "", "draw the shares into this `file`: "+strings.Join(plot.Formats(), ", "))
	fl.BoolVar(&f.quiet, "quiet", false, "no table and no progress bar; warnings and notes still go to standard error")
	fl.StringVar(&f.class, "class", "client", "what of an access log's line is the class: `client|user|prefix`")
	fl.StringVar(&f.cost, "cost", "1", "what a line of an access log costs: `1|bytes`")
	fl.StringVar(&f.below, "map", "", "put every class of the trace below the class of this `path`")
	fl.DurationVar(&f.reorder, "reorder", 2*time.Minute, "how `long` after its turn a line of a trace may come")
	fl.StringVar(&f.redis, "redis", "", "run in real time against the Redis at this `address`: host:port, the path of a Unix socket, or the word file for what the tree file says; a password is found where the file says")
	fl.IntVar(&f.gateways, "gateways", 1, "`number` of gateways that share the tree, each with the whole of it; with --redis")
	fl.StringVar(&f.skew, "skew", "", "`parts` in which the load is dealt out to gateways, such as 5,1,1,1 (default equal ones)")
	completeFiles(cmd, "tree", "yaml", "yml")
	completeWords(cmd, "redis", inFile, "localhost:6379")
	completeFiles(cmd, "load", "yaml", "yml")
	completeFiles(cmd, "plot", "svg", "png", "html")
	completeWords(cmd, "mode", "police", "shape")
	completeWords(cmd, "class", "client", "user", "prefix")
	completeWords(cmd, "cost", "1", "bytes")
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
	outputs, err := f.outputs()
	if err != nil {
		return err
	}
	defer func() {
		for _, o := range outputs {
			o.discard()
		}
	}()
	measure, changed := f.simulate, false
	if f.redis != "" {
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
	bar := f.bar(cmd)
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
	for _, name := range []string{"tree", "load", "trace", "json", "csv", "plot", "map", "redis", "skew"} {
		if changed(name) && cmd.Flags().Lookup(name).Value.String() == "" { // a shell's variable that is not set
			return fmt.Errorf("htbsim: --%s has an empty value: write one, or leave the flag out", name)
		}
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
	case f.reorder < 0:
		return fmt.Errorf("htbsim: --reorder %v: write a duration of 0 or more, such as 2m", f.reorder)
	case f.json == "-" && f.csv == "-":
		return errors.New("htbsim: --json - and --csv - cannot both have standard output")
	}
	if f.plot != "" && !slices.Contains(plot.Formats(), strings.ToLower(filepath.Ext(f.plot))) {
		return fmt.Errorf("htbsim: --plot %s: the file's ending says what to draw: %s", f.plot, strings.Join(plot.Formats(), ", "))
	}
	if f.trace == "" {
		for _, name := range []string{"class", "cost", "map", "reorder"} {
			if changed(name) {
				return fmt.Errorf("htbsim: --%s is for a trace: give --trace FILE with it", name)
			}
		}
	}
	if err := f.checkRedis(changed); err != nil {
		return err
	}
	if _, err := trace.ParseBy(f.class); err != nil {
		return fmt.Errorf("htbsim: --class: %w", err)
	}
	if _, err := trace.ParseCost(f.cost); err != nil {
		return fmt.Errorf("htbsim: --cost: %w", err)
	}
	if f.below != "" {
		if _, err := htb.ParsePath(f.below); err != nil {
			return fmt.Errorf("htbsim: --map: %w", err)
		}
	}
	return nil
}

// outputs opens the files to be written.
func (f *runFlags) outputs() (map[string]*output, error) {
	out := map[string]*output{}
	for _, path := range []string{f.json, f.csv, f.plot} {
		if path == "" || path == "-" {
			continue
		}
		o, err := f.output(path, out)
		if err != nil {
			for _, o := range out {
				o.discard()
			}
			return nil, err
		}
		out[path] = o
	}
	return out, nil
}

// output opens one, which must be neither one of the others nor an input.
func (f *runFlags) output(path string, others map[string]*output) (*output, error) {
	for other, o := range others {
		if filepath.Clean(path) == filepath.Clean(other) || o.to != "" && same(path, other) {
			return nil, fmt.Errorf("htbsim: two outputs go to %s: give each a file of its own", path)
		}
	}
	for _, in := range []string{cmp.Or(f.tree, defaultTree), cmp.Or(f.load, besideTree(f.tree)), f.trace} {
		if same(path, in) {
			return nil, fmt.Errorf("htbsim: %s is what the run reads: write the output to another file", path)
		}
	}
	return create(path)
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
	by, _ := trace.ParseBy(f.class) // checked above
	cost, _ := trace.ParseCost(f.cost)
	if f.below != "" {
		o.Map, _ = htb.ParsePath(f.below)
		if o.Map == nil { // the root
			o.Map = []string{}
		}
		if err := inner(tree.Root, o.Map); err != nil {
			return nil, inputError{fmt.Errorf("htbsim: --map %s: %s: %w", f.below, tree.Name, err)}
		}
	}
	t := trace.Options{By: by, Cost: cost, Reorder: f.reorder}
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

// bar shows progress on a terminal, once a run takes longer than a second. The
// nil bar shows nothing.
type bar struct {
	to    io.Writer
	what  string
	begin time.Time
	shown *progressbar.ProgressBar
}

func (f *runFlags) bar(cmd *cobra.Command) *bar {
	if _, is := terminal(cmd.ErrOrStderr()); !is || f.quiet {
		return nil
	}
	what := "simulating"
	if f.redis != "" {
		what = "measuring"
	}
	return &bar{to: cmd.ErrOrStderr(), what: what, begin: time.Now()}
}

func (b *bar) set(done float64) {
	const parts = 1000
	if b == nil {
		return
	}
	if b.shown == nil {
		if time.Since(b.begin) < time.Second {
			return
		}
		b.shown = progressbar.NewOptions(parts,
			progressbar.OptionSetWriter(b.to), progressbar.OptionSetDescription(b.what),
			progressbar.OptionFullWidth(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = b.shown.Set(min(parts-1, int(done*parts)))
}

// clear takes the bar off the terminal.
func (b *bar) clear() {
	if b != nil && b.shown != nil {
		_ = b.shown.Clear()
	}
}

func (f *runFlags) write(cmd *cobra.Command, run *result.Run, files map[string]*output) error {
	stdout := cmd.OutOrStdout()
	put := func(path string, fill func(io.Writer) error) error {
		switch path {
		case "":
			return nil
		case "-":
			if err := fill(stdout); err != nil {
				return cannotWrite("to standard output", err)
			}
			return nil
		}
		return files[path].write(fill)
	}
	err := errors.Join(
		put(f.json, func(w io.Writer) error { return report.JSON(w, run) }),
		put(f.csv, func(w io.Writer) error { return report.CSV(w, run) }),
		put(f.plot, func(w io.Writer) error { return plot.Write(w, strings.ToLower(filepath.Ext(f.plot)), run) }),
	)
	if err != nil {
		return err
	}
	if f.quiet || f.json == "-" || f.csv == "-" {
		report.Notes(cmd.ErrOrStderr(), run)
		return nil
	}
	if err := report.Table(stdout, run, look(stdout)); err != nil {
		return cannotWrite("to standard output", err)
	}
	return nil
}
