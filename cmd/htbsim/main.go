// Command htbsim runs a tree of classes under a load or a trace on virtual time,
// and shows who wanted what, who got what, and who borrowed from whom. With a Redis it
// runs several gateways in real time, and shows by how much they go over together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/go-sluice/sluice/internal/report"
)

// The exit codes.
const (
	exitOK    = 0
	exitInput = 1 // mistakes in the input
	exitUsage = 2 // mistakes on the command line
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRoot()
	cmd.SetArgs(append([]string{}, args...)) // cobra takes nil for those of the process
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, err)
	var input inputError
	if errors.As(err, &input) {
		return exitInput
	}
	fmt.Fprintln(stderr, "Type htbsim --help for the commands and flags.")
	return exitUsage
}

// inputError is a mistake in a file, as opposed to one on the command line.
type inputError struct{ err error }

func (e inputError) Error() string { return e.err.Error() }
func (e inputError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := newRun()
	root.Use = "htbsim"
	root.Short = "See a tree of token buckets share its capacity"
	root.Long = `htbsim runs a tree of classes under a load or under recorded traffic, on virtual
time, and shows what each class wanted, what it got and who lent to whom.

Without a command it is htbsim run. Without files it takes config/tree.yaml and
config/load.yaml of this folder or, where there are none, its own copies.`
	root.Example = `  htbsim
  htbsim run --tree tree.yaml --load load.yaml --plot shares.svg
  htbsim run --tree tree.yaml --trace access.log.gz --map free
  htbsim run --tree tree.yaml --load load.yaml --redis localhost:6379 --gateways 4
  htbsim check --tree tree.yaml
  htbsim compare
  htbsim plan --trace access.log --out tree.yaml`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version()
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagMistake)
	root.AddCommand(newRun(), newCheck(), newCompare(), newPlan())
	return root
}

// noFiles refuses arguments that are no flags, and says what they may have been
// meant to be.
func noFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	arg := args[0]
	var flags []string
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".yaml", ".yml":
		flags = []string{"tree", "load"}
	case ".log", ".csv", ".gz":
		flags = []string{"trace"}
	}
	var meant []string
	for _, f := range flags {
		if cmd.Flags().Lookup(f) != nil {
			meant = append(meant, "--"+f+" "+arg)
		}
	}
	if len(meant) == 0 && !cmd.HasParent() {
		meant = cmd.SuggestionsFor(arg)
	}
	switch {
	case len(meant) > 0:
		return fmt.Errorf("htbsim: %q is no command and no flag: did you mean %s?", arg, strings.Join(meant, " or "))
	case cmd.HasParent():
		such := "--tree"
		if cmd.Flags().Lookup("tree") == nil {
			such = "--trace"
		}
		return fmt.Errorf("htbsim: %q is no flag: %s takes flags only, such as %s FILE", arg, cmd.CommandPath(), such)
	}
	return fmt.Errorf("htbsim: %q is no command: there are run, check, compare and plan", arg)
}

// flagMistake says what is wrong with a flag. Go's own flags have one dash, these
// have two.
func flagMistake(cmd *cobra.Command, err error) error {
	var short interface{ GetSpecifiedShortnames() string }
	if errors.As(err, &short) {
		name, _, _ := strings.Cut(short.GetSpecifiedShortnames(), "=")
		if cmd.Flags().Lookup(name) != nil {
			return fmt.Errorf("htbsim: -%s: write it with two dashes: --%s", name, name)
		}
	}
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		return fmt.Errorf("htbsim: %s", strings.Replace(err.Error(), n.Error(), "write a whole number of 0 or more", 1))
	}
	return fmt.Errorf("htbsim: %w", err)
}

// terminal says whether w is one, and how many columns it has.
func terminal(w io.Writer) (width int, is bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, _ = term.GetSize(int(f.Fd())) // 0 where it does not say
	return width, true
}

// look is how a table is written to w: for people on a terminal, plainly elsewhere.
func look(w io.Writer) report.Look {
	width, is := terminal(w)
	return report.Look{
		Colour: is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Width:  width,
	}
}
