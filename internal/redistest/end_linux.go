package redistest

import "syscall"

// ends makes a server end with the thread that started it, so that none outlives a test
// that is killed.
func ends() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
