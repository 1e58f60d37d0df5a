package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/internal/plot"
	"github.com/go-sluice/sluice/internal/sim"
	"github.com/go-sluice/sluice/internal/trace"
)

// outputFlags say where results go.
type outputFlags struct {
	json, csv, plot string
	quiet           bool
}

func (f *outputFlags) add(cmd *cobra.Command, what string) {
	fl := cmd.Flags()
	fl.StringVar(&f.json, "json", "", "write the result as JSON to this `file`, - for standard output")
	fl.StringVar(&f.csv, "csv", "", "write the series as CSV to this `file`, - for standard output")
	fl.StringVar(&f.plot, "plot", "", "draw "+what+" into this `file`: "+strings.Join(plot.Formats(), ", "))
	fl.BoolVar(&f.quiet, "quiet", false, "no table and no progress bar; warnings and notes still go to standard error")
	completeFiles(cmd, "plot", "svg", "png", "html")
}

func (f *outputFlags) check() error {
	if f.json == "-" && f.csv == "-" {
		return errors.New("htbsim: --json - and --csv - cannot both have standard output")
	}
	if f.plot != "" && !slices.Contains(plot.Formats(), strings.ToLower(filepath.Ext(f.plot))) {
		return fmt.Errorf("htbsim: --plot %s: the file's ending says what to draw: %s", f.plot, strings.Join(plot.Formats(), ", "))
	}
	return nil
}

// silent says that there is no table, so that notes go to standard error.
func (f *outputFlags) silent() bool { return f.quiet || f.json == "-" || f.csv == "-" }

// outputs are files that are written in the end, by path.
type outputs map[string]*output

// open opens the files to be written, none of which may be an input.
func (f *outputFlags) open(inputs ...string) (outputs, error) {
	return openOutputs([]string{f.json, f.csv, f.plot}, inputs)
}

func openOutputs(paths, inputs []string) (outputs, error) {
	out := outputs{}
	for _, path := range paths {
		if path == "" || path == "-" {
			continue
		}
		o, err := out.open(path, inputs)
		if err != nil {
			out.discard()
			return nil, err
		}
		out[path] = o
	}
	return out, nil
}

// open opens one, which must be neither one of the others nor an input.
func (out outputs) open(path string, inputs []string) (*output, error) {
	for other, o := range out {
		if filepath.Clean(path) == filepath.Clean(other) || o.to != "" && same(path, other) {
			return nil, fmt.Errorf("htbsim: two outputs go to %s: give each a file of its own", path)
		}
	}
	for _, in := range inputs {
		if same(path, in) {
			return nil, fmt.Errorf("htbsim: %s is what the run reads: write the output to another file", path)
		}
	}
	return create(path)
}

func (out outputs) discard() {
	for _, o := range out {
		o.discard()
	}
}

// put fills the output of a flag: a file, standard output, or none.
func (out outputs) put(stdout io.Writer, path string, fill func(io.Writer) error) error {
	switch path {
	case "":
		return nil
	case "-":
		if err := fill(stdout); err != nil {
			return cannotWrite("to standard output", err)
		}
		return nil
	}
	return out[path].write(fill)
}

// traceFlags say how a trace is read.
type traceFlags struct {
	trace       string
	class, cost string
	reorder     time.Duration
}

func (f *traceFlags) add(cmd *cobra.Command, of string) {
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", "the trace `file`"+of)
	fl.StringVar(&f.class, "class", "client", "what of an access log's line is the class: `client|user|prefix`")
	fl.StringVar(&f.cost, "cost", "1", "what a line of an access log costs: `1|bytes`")
	fl.DurationVar(&f.reorder, "reorder", 2*time.Minute, "how `long` after its turn a line of a trace may come")
	completeWords(cmd, "class", "client", "user", "prefix")
	completeWords(cmd, "cost", "1", "bytes")
}

func (f *traceFlags) check() error {
	if f.reorder < 0 {
		return fmt.Errorf("htbsim: --reorder %v: write a duration of 0 or more, such as 2m", f.reorder)
	}
	if _, err := trace.ParseBy(f.class); err != nil {
		return fmt.Errorf("htbsim: --class: %w", err)
	}
	if _, err := trace.ParseCost(f.cost); err != nil {
		return fmt.Errorf("htbsim: --cost: %w", err)
	}
	return nil
}

// options returns them checked.
func (f *traceFlags) options() trace.Options {
	by, _ := trace.ParseBy(f.class)
	cost, _ := trace.ParseCost(f.cost)
	return trace.Options{By: by, Cost: cost, Reorder: f.reorder}
}

// unit is what the costs of a trace count, as far as one can tell.
func (f *traceFlags) unit(format string) string {
	switch {
	case format == trace.FormatCSV:
		return "units"
	case f.cost == "bytes":
		return "bytes"
	}
	return "requests"
}

// noEmpty finds flags with an empty value.
func noEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) && cmd.Flags().Lookup(name).Value.String() == "" { // a shell's variable that is not set
			return fmt.Errorf("htbsim: --%s has an empty value: write one, or leave the flag out", name)
		}
	}
	return nil
}

// onlyTrace finds flags that are for a trace, where there is none.
func (f *traceFlags) onlyTrace(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f.trace == "" && cmd.Flags().Changed(name) {
			return fmt.Errorf("htbsim: --%s is for a trace: give --trace FILE with it", name)
		}
	}
	return nil
}

// eachRequest reads a trace that was scanned, to its end; note is what is to be said of it.
func eachRequest(ctx context.Context, path string, s trace.Summary, t trace.Options, progress func(float64), do func(trace.Request)) (note string, err error) {
	in, err := input(trace.Open(path, s, t))
	if err != nil {
		return "", err
	}
	defer in.Close()
	for n := 1; ; n++ {
		if n%4096 == 0 {
			if progress(float64(in.Offset()) / float64(max(1, s.Bytes))); ctx.Err() != nil {
				return "", ctx.Err()
			}
		}
		r, ok, err := in.Next()
		if err != nil {
			return "", inputError{err}
		}
		if !ok {
			return sim.LateNote(in), nil
		}
		do(r)
	}
}
