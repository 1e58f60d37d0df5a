package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/internal/report"
)

func newCheck() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check --tree FILE",
		Short: "Print a tree with its defaults filled in, or every mistake in it",
		Args:  noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := readTree(path, false)
			if err != nil {
				return err
			}
			warn(cmd, f.Warnings)
			if err := report.Classes(cmd.OutOrStdout(), f.Tree, f.Unit, f.Root.Resolved(), look(cmd.OutOrStdout())); err != nil {
				return cannotWrite("to standard output", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "tree", "", "the tree `file`; config/tree.yaml if not given")
	completeFiles(cmd, "tree", "yaml", "yml")
	return cmd
}

func warn(cmd *cobra.Command, warnings []*config.Error) {
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
	}
}
