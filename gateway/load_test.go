package gateway

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/redistest"
)

func write(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "tree.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A file says everything: the tree, where Redis is, and what to do without.
func TestLoad(t *testing.T) {
	s := redistest.Run(t)
	ctx := context.Background()
	path := write(t, `
tree: api
redis: {addr: `+s.Socket+`, timeout: 300ms, onOutage: closed}
global:
  rate: 1000/s
  sync: 100ms
  children:
    acme: {rate: 600/s, ceil: 1000/s, sync: 100ms}
    free:
      rate: 100/s
      sync: 1s
      children:
        "*": {rate: 3/h, burst: 3, also: [5/day], store: redis}
`)
	a, err := Load(ctx, path, Options{})
	require.NoError(t, err)
	defer a.Close(ctx)
	b, err := Load(ctx, path, Options{})
	require.NoError(t, err)
	defer b.Close(ctx)
	for i := range 4 {
		d, err := [...]*Gateway{a, b}[i%2].Allow(ctx, 1, "free", "a/b")
		require.NoError(t, err)
		require.False(t, d.Outage)
		require.Equal(t, i < 3, d.Allowed)
	}
	require.NoError(t, s.Kill())
	d, err := a.Allow(ctx, 1, "free", "bob")
	require.NoError(t, err)
	require.True(t, d.Outage, "%+v", d)
	require.False(t, d.Allowed)

	require.ErrorContains(t, a.ReplaceFile(write(t, "tree: api\nglobal: {rate: 1/s}\n")), "config.Load")
	_, err = Load(ctx, write(t, "tree: api\nredis: {addr: a:1, passwordEnv: NOT_SET_ANYWHERE}\nglobal: {rate: 1/s}\n"), Options{})
	require.ErrorContains(t, err, "NOT_SET_ANYWHERE")
	_, err = Load(ctx, filepath.Join(t.TempDir(), "none.yaml"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}
