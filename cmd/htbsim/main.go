// Command htbsim runs a tree of classes under a load or a trace on virtual time,
// and shows who wanted what, who got what, and who borrowed from whom.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
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
	cmd.SetArgs(args)
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
  htbsim check --tree tree.yaml`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version()
	root.CompletionOptions.HiddenDefaultCmd = false
	run := newRun()
	root.AddCommand(run, newCheck())
	return root
}

// terminal says whether w is one, and may be coloured.
func terminal(w io.Writer) (is, colour bool) {
	f, ok := w.(*os.File)
	is = ok && term.IsTerminal(int(f.Fd()))
	return is, is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
