// Record lets the Linux kernel shape a scenario and writes down what came through:
// the yardstick for trees with semantics: kernel.
//
//	go run ./scripts/record --tc F.tc --load F.load.yaml --out F.kernel.json
//
// It makes two network namespaces with a cable (a veth pair) between them, gives
// one end the classes of the .tc file, sends the flows of the load file as UDP
// packets, whose class is their socket's priority, and counts at the other end. A
// packet's cost is its bytes on the wire, the 14 of the Ethernet header included.
//
// A backlogged flow always has --backlog packets on their way, nearly all of them
// in the queue of its class; at the flow's end they still come through. Any other
// flow sends by the clock, whatever is queued, into a FIFO of 1000 packets. The
// arrivals are those that htbsim makes of the same file.
//
// Nothing leaves the two namespaces, and they have no names: they go when the
// program ends, however it ends. It runs the scenario --runs times and keeps the
// run in which most came through, since all that a busy machine does to a shaper
// is to make it late. It needs Linux with sch_htb, root, and ip and tc.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/go-sluice/sluice/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	fl := flag.NewFlagSet("record", flag.ContinueOnError)
	fl.SetOutput(io.Discard) // what it would say of a mistake is said once, by main
	tc := fl.String("tc", "", "the classes: a tc batch `file`")
	load := fl.String("load", "", "the flows: a load `file`, costs in bytes")
	out := fl.String("out", "", "the `file` to write, in JSON")
	against := fl.String("against", "", "compare with this earlier recording `file`, if given")
	runs := fl.Int("runs", 3, "how often to run it; the least disturbed run is kept")
	step := fl.Duration("step", time.Second, "`length` of an entry of the series")
	o := options{}
	fl.Int64Var(&o.backlog, "backlog", 17, "`packets` on their way of a backlogged flow")
	fl.Uint64Var(&o.seed, "seed", 1, "`number` that picks random arrivals and costs")
	if err := fl.Parse(args); errors.Is(err, flag.ErrHelp) {
		fl.SetOutput(log)
		fl.Usage()
		return err
	} else if err != nil {
		return fmt.Errorf("record: %w: --help lists the flags", err)
	}
	switch {
	case *tc == "" || *load == "" || *out == "" || fl.NArg() > 0:
		return errors.New("record: write --tc FILE --load FILE --out FILE")
	case *runs < 1 || o.backlog < 1 || *step < time.Millisecond:
		return errors.New("record: --runs and --backlog are 1 or more, --step is 1ms or more")
	}
	if _, err := os.Stat(filepath.Dir(*out)); err != nil {
		return fmt.Errorf("record: --out: %w", err)
	}
	s, err := readScenario(*tc, *load, log)
	if err != nil {
		return err
	}
	s.step = *step
	var earlier *recording
	if *against != "" {
		if earlier, err = readRecording(*against); err != nil {
			return err
		}
	}
	var best *recording
	for i := range *runs {
		r, err := record(ctx, s, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "run %d of %d: %d bytes came through, a clock woke up at most %v late\n", i+1, *runs, r.total(), r.late.Round(10*time.Microsecond))
		if best == nil || r.better(best) {
			best = r
		}
	}
	data, err := json.MarshalIndent(best, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, append(data, '\n'), 0o666); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if earlier != nil {
		best.compare(log, earlier, s.link)
	}
	return nil
}

// options are the settings of a run.
type options struct {
	backlog int64  // packets on their way of a backlogged flow
	seed    uint64 // of random arrivals and costs
}

// readScenario reads the two files and prints their warnings.
func readScenario(tc, load string, log io.Writer) (*scenario, error) {
	data, err := os.ReadFile(tc)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	f, paths, treeErr := config.ParseTC(tc, data)
	l, loadErr := config.ParseLoadFile(load, config.Bytes)
	if err := errors.Join(treeErr, loadErr); err != nil {
		return nil, err
	}
	for _, w := range f.Warnings {
		fmt.Fprintf(log, "warning: %v\n", w)
	}
	return newScenario(f, paths, l)
}
