package main

import (
	"bufio"
	"cmp"
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
func readTree(path string, shape bool) (*config.File, error) {
	parse, name := config.Parse, path
	if shape {
		parse = config.ParseShape
	}
	if name == "" {
		name = defaultTree
	}
	data, err := os.ReadFile(name)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return input(parse("(built-in) "+name, config.ExampleTree))
	}
	if err != nil {
		return input[*config.File](nil, err)
	}
	return input(parse(name, data))
}

// readLoad reads the load file at path; without one, load.yaml beside the tree.
func readLoad(path, tree, unit string) (*config.LoadFile, error) {
	if path != "" {
		return input(config.ParseLoadFile(path, unit))
	}
	beside := besideTree(tree)
	l, err := config.ParseLoadFile(beside, unit)
	if errors.Is(err, fs.ErrNotExist) {
		if _, none := os.Stat(defaultTree); tree != "" || none == nil {
			return nil, fmt.Errorf("htbsim: no traffic given: write --load FILE or --trace FILE (there is no %s either)", beside)
		}
		l, err = config.ParseLoad("(built-in) "+beside, config.ExampleLoad, unit)
	}
	return input(l, err)
}

// besideTree is where the load is looked for when none is named.
func besideTree(tree string) string {
	return filepath.Join(filepath.Dir(cmp.Or(tree, defaultTree)), "load.yaml")
}

// input marks err as a mistake of the input. That a file cannot be read is told
// without the names of packages and calls.
func input[T any](v T, err error) (T, error) {
	if err == nil {
		return v, nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("htbsim: cannot read %s: %w", p.Path, p.Err)
	}
	return v, inputError{err}
}

// output is a file to be written at the end of a run. It is opened at the start,
// so that a bad path costs nobody a long run, and takes the place of the old file
// only when it is complete.
type output struct {
	path string
	file *os.File
	to   string      // what file is renamed to in the end; "" if it is the output itself
	mode fs.FileMode // of the file then
}

// create opens an output. Of an existing file it keeps the mode and the symbolic
// links that lead to it; a pipe or a device is written to as it is.
func create(path string) (*output, error) {
	o := &output{path: path, to: path, mode: 0o644}
	old, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, cannotWrite(path, err)
	case old.IsDir():
		return nil, cannotWrite(path, errors.New("it is a folder: write the name of a file"))
	default:
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, cannotWrite(path, err)
		}
		if !old.Mode().IsRegular() {
			o.file, o.to = f, ""
			return o, nil
		}
		_ = f.Close() // it may be written to, that is all
		o.mode = old.Mode().Perm()
		if o.to, err = filepath.EvalSymlinks(path); err != nil {
			return nil, cannotWrite(path, err)
		}
	}
	if o.file, err = os.CreateTemp(filepath.Dir(o.to), "."+filepath.Base(o.to)+".*"); err != nil {
		return nil, cannotWrite(path, err)
	}
	return o, nil
}

// cannotWrite says so of path, whatever file beside it the error is about.
func cannotWrite(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return inputError{fmt.Errorf("htbsim: cannot write %s: %w", path, err)}
}

// write fills the file and puts it in place.
func (o *output) write(fill func(io.Writer) error) error {
	w := bufio.NewWriter(o.file)
	err := errors.Join(fill(w), w.Flush())
	if o.to != "" {
		err = errors.Join(err, o.file.Chmod(o.mode))
	}
	err = errors.Join(err, o.file.Close())
	if err == nil && o.to != "" {
		err = os.Rename(o.file.Name(), o.to)
	}
	if err != nil {
		return cannotWrite(o.path, err)
	}
	return nil
}

// discard removes what was not put in place.
func (o *output) discard() {
	_ = o.file.Close()
	if o.to != "" {
		_ = os.Remove(o.file.Name())
	}
}

// same says whether two paths lead to one file.
func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
