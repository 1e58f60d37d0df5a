package sluice_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice"
)

// The README's Go is the Example, which is compiled and run.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(readme), "```go\n")
	require.True(t, ok)
	code, _, _ = strings.Cut(code, "```")
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, body, ok := strings.Cut(string(example), "func Example() {\n")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "\t// Output:")
	require.Equal(t, strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:], code)
}

func TestNowGoesForward(t *testing.T) {
	a := sluice.Now()
	b := sluice.Now()
	require.GreaterOrEqual(t, b, a)
	require.GreaterOrEqual(t, int64(a), int64(0))
}
