package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestLoadMakesATree(t *testing.T) {
	tree, err := Load("tree.yaml")
	require.NoError(t, err)
	d, err := tree.Allow(0, 1, "free", "alice")
	require.NoError(t, err)
	require.True(t, d.Allowed)

	_, err = Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What this version cannot keep is refused, not kept in this process on the quiet.
func TestLoadRefusesWhatItCannotKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.yaml")
	write(t, path, `tree: t
redis: {addr: "localhost:6379"}
global:
  rate: 10/s
  children:
    a:
      rate: 1/s
      store: redis
    b: {rate: 1/s, sync: 100ms}
`)
	_, err := Load(path)
	const instead = " needs Redis: load it with gateway.Load (package github.com/go-sluice/sluice/gateway), or take it out to keep the class in this process alone"
	require.EqualError(t, err, path+":8: a: store: redis"+instead+"\n"+path+":9: b: sync"+instead)
	tree, err := htb.New(htb.Spec{Rate: algo.PerSecond(10)})
	require.NoError(t, err)
	require.ErrorContains(t, Replace(tree, 0, path), "gateway.Load")
	_, err = LoadShape(path)
	const shape = " is not for shaping: a shaper keeps everything in its process: take it out"
	require.EqualError(t, err, path+":8: a: store: redis"+shape+"\n"+path+":9: b: sync"+shape)
	write(t, path, "tree: t\nsemantics: kernel\nglobal: {rate: 10/s}\n")
	_, err = Load(path)
	require.ErrorContains(t, err, "semantics: strict")
}

func TestReplaceKeepsTheOldTreeWhenTheFileIsBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.yaml")
	write(t, path, "tree: t\nglobal: {rate: 10/s}\n")
	tree, err := Load(path)
	require.NoError(t, err)
	write(t, path, "tree: t\nglobal: {rate: 20/s, cail: 30/s}\n")
	var errs Errors
	require.ErrorAs(t, Replace(tree, 0, path), &errs)
	require.Equal(t, 2, errs[0].Line)
	require.Equal(t, int64(10), tree.Spec().Resolved().Burst)
	write(t, path, "tree: t\nglobal: {rate: 20/s}\n")
	require.NoError(t, Replace(tree, 0, path))
	require.Equal(t, int64(20), tree.Spec().Resolved().Burst)
	require.Equal(t, htb.Spec{Rate: tree.Spec().Rate}, tree.Spec())
}
