package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/internal/plan"
	"github.com/go-sluice/sluice/internal/report"
	"github.com/go-sluice/sluice/internal/result"
	"github.com/go-sluice/sluice/internal/trace"
)

// planFlags are those of htbsim plan.
type planFlags struct {
	out, refuse, json string
	growth            float64
	saved             time.Duration
	few               int
	quiet             bool
	traceFlags
}

func newPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan --trace FILE [--out tree.yaml]",
		Short: "Say what limits would have refused little of a trace, and write them as a tree",
		Long: `Say which rates and bursts would have refused 0.1 %, 1 % and 5 % of each class's
requests, and write a tree file for one share: an educated first guess. The tree is
for traffic --growth times as fast, since a limit that just fits a trace refuses more
of what comes after it. Rates are found by bisection: each refuses no more than its
share, but a slower one might, too. Where no rate refuses so little, a note says so,
and no tree is written.

A burst is what the rate brings in --saved, but at least the largest request and 2.
Classes with few requests are planned for together and become one template.
The trace is kept in memory, at 16 to 48 bytes a request.`,
		Example: `  htbsim plan --trace access.log.gz --class client
  htbsim plan --trace tokens.csv --refuse 0.5% --growth 1.5 --out tree.yaml`,
		Args: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "write the tree to this `file`, - for standard output")
	fl.StringVar(&f.refuse, "refuse", "1%", "the `share` of a class's requests that the tree may refuse then")
	fl.Float64Var(&f.growth, "growth", 1.5, "the tree is for traffic this many `times` as fast as the trace's")
	fl.DurationVar(&f.saved, "saved", time.Second, "how `long` a class saves up for its burst")
	fl.IntVar(&f.few, "few", 1000, "a class with fewer requests than this `number` goes into a template")
	fl.StringVar(&f.json, "json", "", "write the plan as JSON to this `file`, - for standard output")
	fl.BoolVar(&f.quiet, "quiet", false, "no table and no progress bar; notes still go to standard error")
	f.traceFlags.add(cmd, " to plan for")
	completeFiles(cmd, "out", "yaml", "yml")
	completeFiles(cmd, "trace", "log", "csv", "gz")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command) error {
	o, err := f.check(cmd)
	if err != nil {
		return err
	}
	outputs, err := openOutputs([]string{f.out, f.json}, []string{f.trace})
	if err != nil {
		return err
	}
	defer outputs.discard()
	bar := newBar(cmd, f.quiet, "planning")
	p, unit, err := f.plan(cmd.Context(), o, bar.set)
	bar.clear()
	if errors.Is(err, context.Canceled) {
		return inputError{errors.New("htbsim: interrupted: nothing is written")}
	}
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	// A tree that cannot be is found before anything is written.
	var tree strings.Builder
	if f.out != "" {
		if err := p.Tree(&tree, filepath.Base(f.trace), unit); err != nil {
			return inputError{fmt.Errorf("htbsim: %s: %s", f.trace, strings.TrimPrefix(err.Error(), "plan: "))}
		}
	}
	err = errors.Join(
		outputs.put(stdout, f.out, func(w io.Writer) error { _, err := io.WriteString(w, tree.String()); return err }),
		outputs.put(stdout, f.json, func(w io.Writer) error { return report.PlanJSON(w, p, unit) }),
	)
	if err != nil {
		return err
	}
	if f.quiet || f.out == "-" || f.json == "-" {
		report.Notes(cmd.ErrOrStderr(), &result.Run{Notes: p.Notes})
		return nil
	}
	if err := report.Plan(stdout, p, unit, look(stdout)); err != nil {
		return cannotWrite("to standard output", err)
	}
	return nil
}

// check finds mistakes among the flags.
func (f *planFlags) check(cmd *cobra.Command) (plan.Options, error) {
	o := plan.Options{Growth: f.growth, Saved: f.saved, Few: f.few}
	if err := noEmpty(cmd, "trace", "out", "refuse", "json"); err != nil {
		return o, err
	}
	share, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(f.refuse, "%")), 64)
	o.Refuse = share / 100
	switch {
	case f.trace == "":
		return o, errors.New("htbsim: --trace is missing: write the file of the traffic to plan for, such as --trace access.log")
	case err != nil || !strings.HasSuffix(f.refuse, "%") || !(share >= 0 && share < 100):
		return o, fmt.Errorf("htbsim: --refuse %q: write a share from 0%% to below 100%%, such as 1%%", f.refuse)
	case !(f.growth > 0) || math.IsInf(f.growth, 0) || f.growth < 1e-3 || f.growth > 1e3:
		return o, fmt.Errorf("htbsim: --growth %v: write a number from 0.001 to 1000, such as 1.5", f.growth)
	case f.saved < 0:
		return o, fmt.Errorf("htbsim: --saved %v: write a duration of 0 or more, such as 1s", f.saved)
	case f.few < 0:
		return o, fmt.Errorf("htbsim: --few %d: write a number of 0 or more", f.few)
	case f.out == "-" && f.json == "-":
		return o, errors.New("htbsim: --out - and --json - cannot both have standard output")
	}
	return o, f.traceFlags.check()
}

func (f *planFlags) plan(ctx context.Context, o plan.Options, progress func(float64)) (*plan.Plan, string, error) {
	t := f.options()
	s, err := input(trace.Scan(ctx, f.trace, t))
	if err != nil {
		return nil, "", err
	}
	r := plan.NewRecorder()
	note, err := eachRequest(ctx, f.trace, s, t, func(done float64) { progress(done / 2) }, func(q trace.Request) { r.Add(q.At, q.Class, q.Cost) })
	if err != nil {
		return nil, "", err
	}
	p, err := r.Make(ctx, o, s.Span, func(done float64) { progress(0.5 + done/2) })
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err != nil {
		return nil, "", inputError{fmt.Errorf("htbsim: %s: %s", f.trace, strings.TrimPrefix(err.Error(), "plan: "))}
	}
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	return p, f.unit(s.Format), nil
}
