// Faults leads gateways through everything that goes wrong with Redis, and reports how
// their decisions fared: three gateways meet each fault, one with each outage policy.
//
//	go run ./faults -for 3s -timeout 5ms
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-sluice/sluice/internal/redistest/trial"
)

func main() {
	t := trial.Trial{}
	flag.DurationVar(&t.For, "for", 3*time.Second, "how long each fault lasts")
	flag.DurationVar(&t.Before, "before", time.Second, "how long it is asked before")
	flag.DurationVar(&t.After, "after", 2*time.Second, "and after")
	flag.DurationVar(&t.Timeout, "timeout", 5*time.Millisecond, "the longest that a decision waits for Redis")
	flag.DurationVar(&t.Sync, "sync", 100*time.Millisecond, "how often gateways exchange what they used")
	flag.DurationVar(&t.Every, "every", 10*time.Millisecond, "a caller asks so often")
	flag.IntVar(&t.Callers, "callers", 8, "of each gateway")
	latency := flag.Duration("latency", 50*time.Millisecond, "of a trip, when Redis is slow")
	only := flag.String("only", "", "the faults whose names contain this")
	flag.Parse()
	if err := run(os.Stdout, t, *latency, *only); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, t trial.Trial, latency time.Duration, only string) error {
	fmt.Fprintf(w, `%s, GOMAXPROCS %d, Redis, the proxy before it and the callers on the same machine. Each fault lasts %v; three
gateways, each asked %.0f times a second; timeout %v, sync %v.

Decisions are those while the fault holds. Of them, times in ms: of all on store: redis, and the longest of the others.
Noticed: after the fault began, the gateway did not ask (store) and the policy held for sync. Recovered: after it ended,
the first decision by Redis, and the policy held no more for sync. Replays are decisions that were sent again. Heap: at the end, more than before the fault.

`, runtime.Version(), runtime.GOMAXPROCS(0), t.For, float64(t.Callers)/t.Every.Seconds(), t.Timeout, t.Sync)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "fault\tonOutage\tdecisions\tadmitted\toutage\tp50\tp99\tp99.9\tmax\tmax of others\tnoticed store\tsync\trecovered store\tsync\terrors\treplays\theap KiB\t")
	for _, which := range trial.Faults(latency) {
		if !strings.Contains(which(nil, nil).Name, only) {
			continue
		}
		r, err := t.Run(context.Background(), which)
		if err != nil {
			return err
		}
		for _, run := range r.Runs {
			row(table, r, run)
		}
	}
	return table.Flush()
}

func row(w io.Writer, r *trial.Result, run *trial.Run) {
	samples := r.Affected(run)
	admitted, outage := 0, 0
	for _, s := range samples {
		if s.Allowed {
			admitted++
		}
		if s.Outage {
			outage++
		}
	}
	took := trial.Latencies(samples, trial.Stored)
	others := max(trial.Quantile(trial.Latencies(samples, trial.Shared), 1), trial.Quantile(trial.Latencies(samples, trial.Own), 1))
	open, out := r.Noticed(run)
	asks, in := r.Recovered(run)
	fmt.Fprintf(w, "%s\t%v\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t\n", r.Fault.Name, run.OnOutage, len(samples), admitted, outage,
		ms(trial.Quantile(took, .5)), ms(trial.Quantile(took, .99)), ms(trial.Quantile(took, .999)), ms(trial.Quantile(took, 1)), ms(others),
		moment(open), moment(out), moment(asks), moment(in), len(run.Errs)+int(run.Asked-run.Answered), r.Repeats, r.Heap>>10)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1000) }

func moment(m trial.Moment) string {
	if !m.Came {
		return "never"
	}
	return fmt.Sprintf("%.0f", m.After.Seconds()*1000)
}
