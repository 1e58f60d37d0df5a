package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pictures in docs are what the commands under them draw.
func TestPicturesInDocs(t *testing.T) {
	t.Chdir("../..")
	const fair = "cmd/htbsim/testdata/fair/"
	for name, args := range map[string]string{
		"compare.svg": "compare",
		"edge.svg":    "compare --load cmd/htbsim/testdata/compare/edge.load.yaml --rate 100/s --burst 200",
		"shares.svg":  "--top 3",
		"wake.svg":    "--tree " + fair + "wake.tree.yaml --load " + fair + "wake.load.yaml --step 100ms",
		"llm.svg":     "--tree " + fair + "llm.tree.yaml --trace ../shared/data/llm_tokens.csv --step 10s",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("../shared/data"); err != nil && strings.Contains(args, "../shared/data") {
				t.Skipf("no recorded traffic here: %v", err)
			}
			path := filepath.Join(t.TempDir(), name)
			var stderr bytes.Buffer
			require.Equal(t, exitOK, execute(context.Background(), append(strings.Fields(args), "--quiet", "--plot", path), io.Discard, &stderr), &stderr)
			have, err := os.ReadFile(path)
			require.NoError(t, err)
			picture := filepath.Join("docs", name)
			if *update {
				require.NoError(t, os.WriteFile(picture, have, 0o644))
			}
			want, err := os.ReadFile(picture)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, have), "%s is another: go test ./cmd/htbsim -update, and look at it", picture)
		})
	}
}

// Two services of a real trace share a budget of 60 % of what they want: each gets what
// is fair, nearly, in spite of their sending in clusters that come too late to be lent to.
func TestRealServicesShare(t *testing.T) {
	const trace = "../../../shared/data/llm_tokens.csv"
	if _, err := os.Stat(trace); err != nil {
		t.Skipf("no recorded traffic here: %v", err)
	}
	d := decode(t, works(t, "run", "--tree", "testdata/fair/llm.tree.yaml", "--trace", trace, "--step", "10s", "--json", "-", "--quiet"))
	for name, least := range map[string]float64{"code": .85, "conv": .97} {
		c := d.Classes[name]
		t.Logf("%s gets %d of %.0f, %.1f %%", name, c.Gets, c.Fair, 100*float64(c.Gets)/c.Fair)
		require.GreaterOrEqual(t, float64(c.Gets), least*c.Fair, name)
		require.LessOrEqual(t, float64(c.Gets), 1.02*c.Fair, name)
	}
}
