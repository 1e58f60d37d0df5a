package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-sluice/sluice/config"
)

// defaultTree is read where no tree is named.
const defaultTree = "config/tree.yaml"

// readTree reads the tree file at path. Without one it is the default, from this
// folder or built in.
func readTree(path string) (*config.File, error) {
	if path != "" {
		return input(config.ParseFile(path))
	}
	f, err := config.ParseFile(defaultTree)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = config.Parse("(built-in) "+defaultTree, config.ExampleTree)
	}
	return input(f, err)
}

// readLoad reads the load file at path; without one, load.yaml beside the tree.
func readLoad(path, tree, unit string) (*config.LoadFile, error) {
	if path != "" {
		return input(config.ParseLoadFile(path, unit))
	}
	beside := filepath.Join(filepath.Dir(defaultTree), "load.yaml")
	if tree != "" {
		beside = filepath.Join(filepath.Dir(tree), "load.yaml")
	}
	l, err := config.ParseLoadFile(beside, unit)
	if errors.Is(err, fs.ErrNotExist) {
		if tree != "" {
			return nil, fmt.Errorf("htbsim: no traffic given: write --load FILE or --trace FILE (there is no %s either)", beside)
		}
		l, err = config.ParseLoad("(built-in) "+beside, config.ExampleLoad, unit)
	}
	return input(l, err)
}

func input[T any](v T, err error) (T, error) {
	if err != nil {
		return v, inputError{err}
	}
	return v, nil
}

// output is a file to be written at the end of a run. It is opened at the start,
// so that a bad path costs nobody a long run, and takes the place of the old file
// only when it is complete.
type output struct {
	path string
	temp *os.File
}

func create(path string) (*output, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("htbsim: cannot write %s: %w", path, err)
	}
	return &output{path, f}, nil
}

// write fills the file and puts it in place.
func (o *output) write(fill func(io.Writer) error) error {
	w := bufio.NewWriter(o.temp)
	err := errors.Join(fill(w), w.Flush(), o.temp.Chmod(0o644), o.temp.Close())
	if err == nil {
		err = os.Rename(o.temp.Name(), o.path)
	}
	if err != nil {
		return inputError{fmt.Errorf("htbsim: cannot write %s: %w", o.path, err)}
	}
	return nil
}

// discard removes what was not put in place.
func (o *output) discard() {
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
}
