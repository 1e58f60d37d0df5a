//go:build !linux

package redistest

import "syscall"

// ends: there is no such thing as on Linux; a test that is killed leaves its servers.
func ends() *syscall.SysProcAttr { return nil }
