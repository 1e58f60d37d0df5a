package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

// bar shows progress on a terminal, once a run takes longer than a second. The
// nil bar shows nothing.
type bar struct {
	to    io.Writer
	what  string
	begin time.Time
	shown *progressbar.ProgressBar
}

func newBar(cmd *cobra.Command, quiet bool, what string) *bar {
	if _, is := terminal(cmd.ErrOrStderr()); !is || quiet {
		return nil
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
