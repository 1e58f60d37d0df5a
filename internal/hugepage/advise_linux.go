package hugepage

import (
	"syscall"
	"unsafe"
)

const size = 2 << 20

// Advise asks for the huge pages, of 2 MiB, that have a part in the n bytes from p on. They
// are the system's to give, at the next touch of what it has given nothing for yet.
//
// What lies beside those bytes in the same pages is backed as well: ask for memory that
// has, or will have, its like beside it.
func Advise(p unsafe.Pointer, n uintptr) {
	from := uintptr(p) &^ (size - 1)
	to := (uintptr(p) + n + size - 1) &^ (size - 1)
	// A system without huge pages says so, and all is as it was.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE)
}
