package config

import (
	"fmt"
	"os"

	"github.com/go-sluice/sluice/htb"
)

// Load reads the tree file at path and returns the tree, every bucket full. The
// error is [Errors], everything that is wrong with the file, or that it could not
// be read. A file that asks for what this version does not do (semantics: kernel,
// store: redis, sync) is refused: limits that quietly hold for one process only
// are worse than none. Its warnings are in the File that [ParseFile] returns.
func Load(path string) (*htb.Tree, error) {
	f, err := ready(path)
	if err != nil {
		return nil, err
	}
	return htb.New(f.Root)
}

// Replace reads the tree file at path and makes it what tree is from now on; a
// file with mistakes leaves the old one in force. See [htb.Tree.Replace].
func Replace(tree *htb.Tree, now htb.Time, path string) error {
	f, err := ready(path)
	if err != nil {
		return err
	}
	return tree.Replace(now, f.Root)
}

// ready reads a tree file that is to police in this process.
func ready(path string) (*File, error) {
	f, err := ParseFile(path)
	if err != nil {
		return nil, err
	}
	if f.Semantics == "kernel" {
		return nil, Errors{{f.Name, 1, "", "semantics: kernel is for the shaper: to police, write semantics: strict, or leave it out"}}
	}
	return f, f.local()
}

// LoadShape reads the tree file at path for a shaper; sluice.LoadShaper starts one.
// What this version does not do is refused, as by [Load].
func LoadShape(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	f, err := ParseShape(path, data)
	if err != nil {
		return nil, err
	}
	return f, f.local()
}

// local refuses a file that wants a class to be kept outside the process.
func (f *File) local() error {
	var errs Errors
	f.Settings.shared(f.Root, nil, func(c *Class, path []string) {
		errs = append(errs, &Error{f.Name, c.Line, classPath(path).String(), "store: redis and sync are not in this version: take them out to keep the class in this process alone"})
	})
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// shared calls found for every class that is to be kept outside the process.
func (c *Class) shared(s htb.Spec, path []string, found func(*Class, []string)) {
	if c.Store == "redis" || c.Sync > 0 {
		found(c, path)
	}
	for i, child := range c.Children {
		child.shared(s.Children[i], append(path[:len(path):len(path)], s.Children[i].Name), found)
	}
}
