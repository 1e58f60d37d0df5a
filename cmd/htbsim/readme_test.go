package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's picture is what the command under it draws.
func TestReadmePicture(t *testing.T) {
	picture, err := filepath.Abs("../../docs/shares.svg")
	require.NoError(t, err)
	t.Chdir("../..")
	path := filepath.Join(t.TempDir(), "shares.svg")
	require.Equal(t, exitOK, execute(context.Background(), []string{"--quiet", "--top", "3", "--plot", path}, io.Discard, io.Discard))
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(picture, have, 0o644))
	}
	want, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "go test ./cmd/htbsim -update, and look at it")
}
