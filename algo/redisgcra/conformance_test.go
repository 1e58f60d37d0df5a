package redisgcra

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/internal/conformance"
)

func TestConforms(t *testing.T) {
	l, _ := start(t, Options{}, true)
	made := 0
	conformance.Run(t, time.Microsecond, func(_ testing.TB, rate algo.Rate, burst int64) conformance.Limiter {
		made++
		return clocked{l, fmt.Sprint(made), Limit{rate, burst}}
	})
}

// The ceil bucket of a leaf is a limiter like any other: where everything is borrowed,
// only the ceil is left.
func TestCeilConforms(t *testing.T) {
	l, _ := start(t, Options{}, true)
	made := 0
	conformance.Run(t, time.Microsecond, func(t testing.TB, rate algo.Rate, burst int64) conformance.Limiter {
		made++
		return borrower{t, l, fmt.Sprint(made), Limit{mustRate(t, 1, 365*24*time.Hour), 1}, Limit{rate, burst}}
	})
}
