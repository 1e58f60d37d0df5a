//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is no regular file is written to, not replaced by one: a pipe, such as the
// shell makes for >(jq .), stands here for devices, which a failure would destroy.
func TestOutputToPipe(t *testing.T) {
	folder(t, nil)
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	got := make(chan string, 1)
	go func() {
		data, _ := os.ReadFile("pipe") // an error gives "", which is no JSON
		got <- string(data)
	}()
	works(t, "--quiet", "--json", "pipe")
	pipe, err := os.Lstat("pipe")
	require.NoError(t, err)
	require.Equal(t, os.ModeNamedPipe, pipe.Mode().Type())
	decode(t, <-got)
}
