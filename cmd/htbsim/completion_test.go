package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script := works(t, "completion", shell)
		require.True(t, strings.Contains(script, "__complete") && strings.Contains(script, "htbsim"), shell)
		require.Greater(t, strings.Count(script, "\n"), 50, shell)
	}
}

// What the scripts ask the program for.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"":                      "check compare completion help plan run",
		"ch":                    "check",
		"comp":                  "compare completion",
		"plan --out ":           "yaml yml",
		"plan --trace ":         "log csv gz",
		"compare --load ":       "yaml yml",
		"compare --al":          "--algorithms",
		"compare --plot ":       "svg png html",
		"compare --algorithms ": "token-bucket gcra leaky-meter leaky-one leaky-queue dual-leaky fixed-window sliding-log sliding-counter",
		"run --mode ":           "police shape",
		"--mode ":               "police shape",
		"run --class ":          "client user prefix",
		"run --cost ":           "1 bytes",
		"run --plot ":           "svg png html",
		"run --tree ":           "yaml yml",
		"check --tree ":         "yaml yml",
		"run --load=":           "yaml yml",
		"run --re":              "--redis --reorder",
		"run --redis ":          "file localhost:6379",
		"run --quiet --m":       "--map --mode",
	} {
		o := htbsim(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.Equal(t, exitOK, o.code, o.stderr)
		var got []string
		for l := range strings.SplitSeq(strings.TrimSpace(o.stdout), "\n") {
			if !strings.HasPrefix(l, ":") {
				word, _, _ := strings.Cut(l, "\t")
				got = append(got, word)
			}
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"-h": "check --tree tree.yaml", "help": "Available Commands", "run --help": "--reorder", "help check": "check --tree FILE", "--version": "htbsim version",
		"plan --help": "--growth", "compare --help": "--algorithms", "help compare": "htbsim compare --trace tokens.csv",
	} {
		require.Contains(t, works(t, strings.Fields(args)...), want, args)
	}
}
