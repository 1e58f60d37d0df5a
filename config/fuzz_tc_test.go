package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzTC holds that every file is either a tree with every number in range, or
// refused with mistakes that have a file and a line.
func FuzzTC(f *testing.F) {
	paths, err := filepath.Glob(filepath.FromSlash("testdata/tc/*/*.tc"))
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		file, paths, err := ParseTC("t.tc", data)
		require.Less(t, time.Since(start), quick)
		if err != nil {
			require.Nil(t, file)
			requireErrors(t, err)
			return
		}
		requireTC(t, file, paths)
		for _, w := range file.Warnings {
			require.NotContains(t, w.Error(), "\n")
		}
	})
}
