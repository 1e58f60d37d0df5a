//go:build !linux

package main

import (
	"context"
	"fmt"
	"runtime"
)

func record(context.Context, *scenario, options) (*recording, error) {
	return nil, fmt.Errorf("record: this is %s, and sch_htb is a part of Linux: run it on a Linux machine or in a virtual one", runtime.GOOS)
}
