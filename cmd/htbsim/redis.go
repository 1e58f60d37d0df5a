package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

// inFile is the value of --redis that stands for the redis: block of the tree file.
const inFile = "file"

// mostGateways is how many a run may have.
const mostGateways = 64

// checkRedis finds mistakes among the flags of a run in real time.
func (f *runFlags) checkRedis(changed func(string) bool) error {
	if f.redis == "" {
		for _, name := range []string{"gateways", "skew"} {
			if changed(name) {
				return fmt.Errorf("htbsim: --%s is for a run against Redis: give --redis ADDRESS with it", name)
			}
		}
		return nil
	}
	switch {
	case f.trace != "":
		return errors.New("htbsim: --redis runs in real time, and a trace does not say how its requests are dealt out: give --load FILE instead of --trace, or leave --redis out")
	case f.mode == "shape":
		return errors.New("htbsim: --redis is for gateways that police, and --mode shape queues in one process: leave one of them out")
	case f.load == "":
		return errors.New("htbsim: --redis needs --load FILE: a run in real time takes as long as that says")
	case f.gateways < 1 || f.gateways > mostGateways:
		return fmt.Errorf("htbsim: --gateways %d: write a number from 1 to %d", f.gateways, mostGateways)
	}
	_, err := f.parts()
	return err
}

// parts reads --skew, nil without it.
func (f *runFlags) parts() ([]float64, error) {
	if f.skew == "" {
		return nil, nil
	}
	const most = 1e6 // so that the least part is not rounded away
	var parts []float64
	sum := 0.0
	for s := range strings.SplitSeq(f.skew, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(x >= 0 && x <= most) {
			return nil, fmt.Errorf("htbsim: --skew %s: %q is no number from 0 to %.0f: write one for each gateway, such as 5,1,1,1", f.skew, s, most)
		}
		parts = append(parts, x)
		sum += x
	}
	switch {
	case len(parts) != f.gateways:
		return nil, fmt.Errorf("htbsim: --skew %s has %d parts for %d gateways: write one for each, with commas between", f.skew, len(parts), f.gateways)
	case sum == 0:
		return nil, fmt.Errorf("htbsim: --skew %s gives no gateway anything: write at least one number above 0", f.skew)
	}
	return parts, nil
}

// servers returns what --redis says, with the rest of the tree file's redis: block.
func (f *runFlags) servers(tree *config.File) (*config.Redis, error) {
	if f.redis == inFile {
		if tree.Redis == nil {
			return nil, inputError{fmt.Errorf(`%s: no redis: block, which --redis %s is to take: write redis: {addr: "localhost:6379"} at its top, or --redis localhost:6379`, tree.Name, inFile)}
		}
		return tree.Redis, nil
	}
	addr := f.redis
	if strings.Contains(addr, "/") && !strings.Contains(addr, "://") {
		if path, err := filepath.Abs(addr); err == nil { // fails without a working folder only
			addr = path
		}
	}
	r, err := tree.Redis.At(addr)
	if err != nil {
		why := strings.ReplaceAll(err.Error(), "beside it", "in the tree file's redis: block")
		return nil, fmt.Errorf("htbsim: --redis %s", why)
	}
	return r, nil
}

// anyShared says whether gateways share anything of s.
func anyShared(s htb.Spec) bool {
	return s.Remote || s.Sync > 0 || slices.ContainsFunc(s.Children, anyShared)
}
