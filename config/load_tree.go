package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/go-sluice/sluice/htb"
)

// Load reads the tree file at path and returns the tree, every bucket full. The
// error is [Errors], everything that is wrong with the file, or that it could not
// be read. A file with semantics: kernel is refused, and one with store: redis or
// sync, which package gateway loads: limits that quietly hold for one process only
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
	return f, f.local("needs Redis: load it with gateway.Load (package github.com/go-sluice/sluice/gateway), or take it out to keep the class in this process alone")
}

// LoadShape reads the tree file at path for a shaper; sluice.LoadShaper starts one.
// It keeps everything in its process, so a file with store: redis or sync is refused.
func LoadShape(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	f, err := ParseShape(path, data)
	if err != nil {
		return nil, err
	}
	return f, f.local("is not for shaping: a shaper keeps everything in its process: take it out")
}

// local refuses a file with classes that are kept outside of the process, or settled
// with others. why says so of the key that wants it.
func (f *File) local(why string) error {
	var errs Errors
	var walk func(s htb.Spec, c *Class, path classPath)
	walk = func(s htb.Spec, c *Class, path classPath) {
		say := func(key, what string) {
			errs = append(errs, &Error{f.Name, c.line(key), path.String(), what + " " + why})
		}
		if s.Remote {
			say("store", "store: redis")
		}
		if s.Sync > 0 {
			say("sync", "sync")
		}
		for i, child := range c.Children {
			walk(s.Children[i], child, append(path[:len(path):len(path)], s.Children[i].Name))
		}
	}
	walk(f.Root, f.Settings, nil)
	if len(errs) > 0 {
		slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		return errs
	}
	return nil
}
