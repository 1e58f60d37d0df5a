package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redistest"
)

// BenchmarkSync compares decisions on a tree in memory with those on one of which every
// class is shared with other gateways: three levels, allowed, by handle and by name.
func BenchmarkSync(b *testing.B) {
	spec := func(sync time.Duration) htb.Spec {
		return htb.Spec{Rate: algo.PerSecond(1e9), Sync: sync, Children: []htb.Spec{
			{Name: "tenant", Rate: algo.PerSecond(9e8), Sync: sync, Children: []htb.Spec{
				{Name: "client", Rate: algo.PerSecond(8e8), Sync: sync},
			}},
		}}
	}
	ctx := context.Background()
	tree, err := htb.New(spec(0))
	require.NoError(b, err)
	leaf, err := tree.Leaf("tenant", "client")
	require.NoError(b, err)
	g := start(b, spec(100*time.Millisecond), connect(b, redistest.Run(b)), nil)
	handle, err := g.Leaf("tenant", "client")
	require.NoError(b, err)
	must := func(b *testing.B, d htb.Decision, err error) {
		if err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
	b.Run("memory/handle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := leaf.Allow(sluice.Now(), 1)
			must(b, d, err)
		}
	})
	b.Run("sync/handle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := handle.Allow(ctx, 1)
			must(b, d, err)
		}
	})
	direct, err := g.Tree().Leaf("tenant", "client")
	require.NoError(b, err)
	b.Run("sync/tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := direct.Allow(sluice.Now(), 1)
			must(b, d, err)
		}
	})
	b.Run("memory/name", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := tree.Allow(sluice.Now(), 1, "tenant", "client")
			must(b, d, err)
		}
	})
	b.Run("sync/name", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d, err := g.Allow(ctx, 1, "tenant", "client")
			must(b, d, err)
		}
	})
}
