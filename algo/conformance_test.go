package algo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/conformance"
)

// In memory, to the nanosecond.
func TestGCRAConforms(t *testing.T) {
	conformance.Run(t, time.Nanosecond, newGCRA)
}

func newGCRA(t testing.TB, rate algo.Rate, burst int64) conformance.Limiter {
	g, err := algo.NewGCRA(rate, burst)
	require.NoError(t, err)
	return g
}
