// All measures Sluice beside the limiters that Go services use today, and says which of
// the project's targets are met.
//
//	go run ./all                     # everything, in a quarter of an hour
//	go run ./all -short              # smaller, in about a minute: to see that it works
//	go run ./all -only 'allowed|two' # the tables whose figure/name matches
//	go run ./all -json all.json      # every round as well, for programs
//
// Each contender lives in a process of its own, with GOMAXPROCS as its table says, so that
// none pays for the garbage of another. A round has a turn for each contender, and begins
// with another one each time; short things have five turns a round, of 20 ms. Figures are
// medians of the rounds, ratios are medians of the rounds' ratios: what the machine does
// meanwhile touches all alike. With one core ns is the time of the processor that the
// process had, collections included, as others may use the machine too; "wall ns" is what
// passed. With two cores ns is what passed, over all decisions of both.
//
// Time is measured as users pay for it: Sluice's decisions include reading its clock, as
// those of its peers do. Every limiter counts what it let through, and a contender that
// did not do what its table says, pass or refuse, borrow from the root, keep or forget the
// names, ends the program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-sluice/sluice/bench/internal/rig"
)

func main() {
	rounds := flag.Int("rounds", 0, "how many rounds the medians are of; 0: 6, or 2 with -short")
	short := flag.Bool("short", false, "less of everything, in about a minute")
	only := flag.String("only", "", "measure only the tables whose figure/name matches this expression")
	out := flag.String("json", "", "write all that was measured to this file")
	list := flag.Bool("list", false, "list the tables and measure nothing")
	contender := flag.String("contender", "", "be this contender: used by the program itself")
	dir := flag.String("dir", "", "for -contender: where files go")
	htbsim := flag.String("htbsim", "", "for -contender: the program")
	flag.Parse()
	o := options{short: *short, dir: *dir, htbsim: *htbsim}
	if *contender != "" {
		if err := serve(*contender, o, os.Stdin, os.Stdout); err != nil {
			_ = json.NewEncoder(os.Stdout).Encode(answer{Err: err.Error()})
			os.Exit(1)
		}
		return
	}
	if *rounds == 0 {
		*rounds = pick(o, 6, 2)
	}
	chosen, err := choose(*only, *short)
	if err != nil || *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "all: -rounds is positive, -only an expression that some table matches, and there are no other arguments:", err)
		os.Exit(2)
	}
	if *list {
		for _, g := range chosen {
			fmt.Printf("%s/%s\t%s\n", g.figure, g.name, g.title)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, chosen, o, *rounds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "all:", err)
		os.Exit(1)
	}
}

func choose(only string, short bool) (chosen []group, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	for _, g := range groups() {
		if match.MatchString(g.figure+"/"+g.name) && (!short || !g.long) {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		err = fmt.Errorf("no table matches %q", only)
	}
	return chosen, err
}

// modules are those whose versions are named.
var modules = []string{
	"golang.org/x/time", "github.com/throttled/throttled/v2", "github.com/sethvargo/go-limiter",
	"github.com/juju/ratelimit", "go.uber.org/ratelimit", "github.com/failsafe-go/failsafe-go",
	"github.com/ulule/limiter/v3", "github.com/patrickmn/go-cache", "github.com/hashicorp/golang-lru/v2",
}

func run(ctx context.Context, w io.Writer, chosen []group, o options, rounds int, out string) (err error) {
	if o.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	if o.htbsim, err = build(ctx, o.dir, chosen); err != nil {
		return err
	}
	r := report{Machine: rig.Machine(), Modules: rig.Versions(modules...), Rounds: rounds, Short: o.short}
	r.header(w)
	for _, g := range chosen {
		if free, ok := rig.Available(); ok && free < g.memory {
			fmt.Fprintf(w, "\n%s/%s needs %.0f GB of memory, and %.1f are free: left out.\n", g.figure, g.name, g.memory/1e9, free/1e9)
			continue
		}
		var t table
		if t, err = measure(ctx, g, o, rounds); err != nil {
			break // with what was measured until then
		}
		t.print(w)
		r.Tables = append(r.Tables, t)
	}
	r.verdicts(w)
	if out == "" {
		return err
	}
	text, failed := json.MarshalIndent(r, "", " ")
	if failed == nil {
		failed = os.WriteFile(out, append(text, '\n'), 0o644)
	}
	return errors.Join(err, failed)
}

// build builds htbsim of this tree, if a table needs it.
func build(ctx context.Context, dir string, chosen []group) (string, error) {
	for _, g := range chosen {
		if g.figure != "5" {
			continue
		}
		where, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-sluice/sluice").Output()
		if err != nil {
			return "", fmt.Errorf("looking for htbsim, in the folder of this module: %w", err)
		}
		path := filepath.Join(dir, "htbsim")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/htbsim")
		cmd.Dir, cmd.Stderr = strings.TrimSpace(string(where)), os.Stderr
		return path, cmd.Run()
	}
	return "", nil
}
