package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An output keeps what the file in its place was: its mode, and the links to it.
func TestOutputKeepsModeAndLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links and modes")
	}
	folder(t, map[string]string{"there/real.json": "old\n"})
	require.NoError(t, os.Chmod("there/real.json", 0o640))
	require.NoError(t, os.Symlink("there/real.json", "link.json"))
	twice := htbsim(t.Context(), "--json", "link.json", "--csv", "there/real.json")
	require.Equal(t, exitUsage, twice.code)
	require.Contains(t, twice.stderr, "two outputs go to there/real.json")
	works(t, "--quiet", "--json", "link.json", "--csv", "new.csv")
	link, err := os.Readlink("link.json")
	require.NoError(t, err)
	require.Equal(t, "there/real.json", link)
	real, err := os.Stat("there/real.json")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), real.Mode())
	decode(t, read(t, "there/real.json"))
	fresh, err := os.Stat("new.csv")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), fresh.Mode())
	require.Len(t, contents(t), 3)
}

// full is an output with no room left.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What cannot be written is no success.
func TestOutputFull(t *testing.T) {
	folder(t, nil)
	for _, args := range []string{"", "check", "--json -", "--csv -"} {
		var stderr strings.Builder
		code := execute(t.Context(), strings.Fields(args), full{}, &stderr)
		require.Equal(t, exitInput, code, args)
		require.Equal(t, "htbsim: cannot write to standard output: no space left on device\n", stderr.String(), args)
	}
}

// A file that could not be written to its end leaves the old one alone.
func TestOutputIncomplete(t *testing.T) {
	folder(t, map[string]string{"old.json": "old\n"})
	o, err := create("old.json")
	require.NoError(t, err)
	err = o.write(func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return errors.New("power cut")
	})
	require.EqualError(t, err, "htbsim: cannot write old.json: power cut")
	o.discard()
	require.Equal(t, map[string]string{"old.json": "old\n"}, contents(t))
}
