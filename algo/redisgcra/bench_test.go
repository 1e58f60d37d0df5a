package redisgcra

import (
	"context"
	"testing"

	"github.com/go-sluice/sluice/algo"
)

func BenchmarkAllow(b *testing.B) {
	l, _ := start(b, Options{}, false)
	limit := Limit{algo.PerSecond(1_000_000), 1_000_000}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(context.Background(), "k", limit, 1); err != nil {
			b.Fatal(err)
		}
	}
}
