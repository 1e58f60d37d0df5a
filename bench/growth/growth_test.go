package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Every tree of the first panel decides as its curve says, and a picture comes of it.
func TestDepth(t *testing.T) {
	p := depth()
	for _, c := range p.curves {
		for _, x := range c.at {
			x.n = 1000
			ns, err := x.run()
			if err != nil {
				t.Errorf("%s, %v levels: %v", c.name, x.x, err)
			}
			x.ns = ns
		}
	}
	for _, name := range []string{"g.svg", "g.png"} {
		path := filepath.Join(t.TempDir(), name)
		if err := draw([]*panel{p, p, p, p}, path); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(path); err != nil || i.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}
