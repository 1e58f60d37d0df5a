package redistest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A test that is killed takes its server along.
func TestServerEndsWithItsProcess(t *testing.T) {
	const child = "SLUICE_REDISTEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println("pid", Run(t).cmd.Process.Pid)
		time.Sleep(time.Minute)
		return
	}
	Run(t) // or skip here
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if _, text, ok := strings.Cut(lines.Text(), "pid "); ok {
			pid, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, 0), "it runs")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	require.Eventually(t, func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ") // gone, or nobody's to wait for
	}, 5*time.Second, time.Millisecond)
}
