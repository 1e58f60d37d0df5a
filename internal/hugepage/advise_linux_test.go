package hugepage

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The system knows of the wish, and what is there stays.
func TestAdvise(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("no huge pages here: ", err)
	}
	b := make([]byte, 3*size)
	for i := range b {
		b[i] = byte(i)
	}
	p := unsafe.Pointer(&b[size+1])
	Advise(p, 1)
	require.Contains(t, strings.Fields(flagsOf(t, uintptr(p))), "hg")
	for i := range b {
		require.Equal(t, byte(i), b[i])
	}
	Advise(nil, 1) // which nobody may have: a hint all the same
}

// flagsOf returns those of the mapping with an address.
func flagsOf(t *testing.T, at uintptr) string {
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	var from, to uintptr
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			from, to = lo, hi
		}
		if flags, ok := strings.CutPrefix(s.Text(), "VmFlags:"); ok && from <= at && at < to {
			return flags
		}
	}
	t.Fatal("no such mapping")
	return ""
}
