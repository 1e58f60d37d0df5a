package main

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// asProgram makes the test binary the program itself, for tests that need a process.
const asProgram = "HTBSIM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

func htbsim(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := execute(ctx, args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// works runs a command line that must succeed and have nothing to complain about.
func works(t *testing.T, args ...string) string {
	t.Helper()
	o := htbsim(t.Context(), args...)
	require.Equal(t, exitOK, o.code, "%v: %s", args, o.stderr)
	require.Empty(t, o.stderr, "%v", args)
	return o.stdout
}

// folder makes a new folder with these files the working folder, so that paths
// in messages are the same everywhere.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, data := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(data), 0o644))
	}
}

// contents returns every file of the working folder.
func contents(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// testdata is where this package keeps files, whatever the working folder is.
var testdata = func() string {
	path, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return path
}()

// golden compares got with a file of testdata, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(testdata, name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	require.Equal(t, read(t, path), got, "look at it, then go test ./cmd/htbsim -update")
}
