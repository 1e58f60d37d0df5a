package repo

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// want marks the lines of a fixture that must be complained of.
const want = "// want"

// TestLaws runs every law on the repository, and on a fixture that breaks it, where
// the complaints must be of exactly the lines marked so.
func TestLaws(t *testing.T) {
	repository := parse(t, readRepository(t))
	for _, tc := range []struct {
		name string
		law  law
	}{
		{"packageDocs", packageDocs},
		{"importDirection", importDirection},
		{"noClock", noClock},
		{"exportedDocs", exportedDocs},
		{"noLeftovers", noLeftovers},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, complaint := range tc.law(repository) {
				t.Error(complaint)
			}
		})
		t.Run(tc.name+"Fixture", func(t *testing.T) {
			fixture := readTree(t, filepath.Join("testdata", tc.name))
			var marked, complained []string
			for i, f := range fixture {
				for j, line := range strings.Split(f.source, "\n") {
					if strings.Contains(line, want) {
						marked = append(marked, fmt.Sprintf("%s:%d", f.path, j+1))
					}
				}
				// The mark is no comment that a law may count.
				fixture[i].source = strings.ReplaceAll(f.source, want, "")
			}
			for _, complaint := range tc.law(parse(t, fixture)) {
				t.Log(complaint)
				place, _, _ := strings.Cut(complaint, ": ")
				complained = append(complained, place)
			}
			require.NotEmpty(t, marked)
			require.ElementsMatch(t, marked, complained)
		})
	}
}

// TestEveryPackageIsRead: a walk that found nothing would keep every law.
func TestEveryPackageIsRead(t *testing.T) {
	dirs := map[string]bool{}
	for _, f := range readRepository(t) {
		dirs[f.dir()] = true
	}
	for _, dir := range []string{".", "algo", "htb", "config", "cmd/htbsim", "internal/repo"} {
		require.True(t, dirs[dir], "no file of %s", dir)
	}
	require.False(t, dirs["internal/repo/testdata/noClock/htb"])
}

func TestClockExemptionsAreUsed(t *testing.T) {
	for name := range clockExempt {
		require.FileExists(t, filepath.Join("../..", name))
	}
}

// TestNothingLarge: what is built here, a test's binary for instance, does not belong into
// the repository.
func TestNothingLarge(t *testing.T) {
	const most = 200_000 // bytes
	root := filepath.Join("..", "..")
	names, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skip("no checkout of git: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Size() > most {
			t.Errorf("%s: is %d bytes large, over %d", name, info.Size(), most)
		}
	}
}

func readRepository(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(mod), "module "+module+"\n"), "go.mod names another module")
	return readTree(t, root)
}

// readTree reads the Go files below root that belong to its module, as the go
// command sees it: without testdata, hidden folders and modules further down.
func readTree(t *testing.T, root string) []file {
	t.Helper()
	var files []file
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")
			if name != root && (hidden || entry.Name() == "testdata" || noModule == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files = append(files, file{path: filepath.ToSlash(relative), source: string(source)})
		return nil
	}))
	return files
}

// parse fills in the syntax of files.
func parse(t *testing.T, files []file) []file {
	t.Helper()
	for i := range files {
		f := &files[i]
		f.set = token.NewFileSet()
		var err error
		f.syntax, err = parser.ParseFile(f.set, f.path, f.source, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
	}
	return files
}
