package rig

import (
	"math/rand/v2"
	"time"

	"github.com/go-sluice/sluice/algo"
	"github.com/go-sluice/sluice/htb"
)

// NameLength is that of every name of a client.
const NameLength = 16

// Name returns a name that only i has, in memory of its own.
func Name(i int) string {
	var b [NameLength]byte
	copy(b[:], "client-000000000")
	for at := NameLength - 1; i > 0; at-- {
		b[at] += byte(i % 10)
		i /= 10
	}
	return string(b[:])
}

// Zipf returns names of clients in the order in which they ask: draws of them, of n
// clients, the k-th of which asks in proportion to 1/k^1.1. Who is busy says nothing about
// when its name was first seen.
func Zipf(n, draws int) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 1, uint64(n-1))
	who := rng.Perm(n)
	names := make([]string, n)
	for i := range names {
		names[i] = Name(who[i])
	}
	out := make([]string, draws)
	for i := range out {
		out[i] = names[zipf.Uint64()]
	}
	return out
}

// Fast is a rate, in units per second, that nothing here uses up.
const Fast = 1_000_000_000

// Hardly returns a rate that brings nothing while a benchmark lasts.
func Hardly() algo.Rate { return Must(algo.NewRate(1, 24*time.Hour)) }

// Class returns a class that may save up a second of its rate, or one unit if that is more.
func Class(name string, rate, ceil algo.Rate, children ...htb.Spec) htb.Spec {
	return htb.Spec{Name: name, Rate: rate, Ceil: ceil, Children: children}
}

// ByName returns a tree of three levels with a client per name seen, at most n of them:
// global, the class free, and its clients, each with a guarantee that is not used up. They
// stay for an hour after they are at rest.
func ByName(n int) *htb.Tree {
	client := htb.Spec{Name: htb.Template, Rate: algo.PerSecond(Fast / 100), Max: n, Idle: time.Hour}
	return Must(htb.New(Class("", algo.PerSecond(Fast), algo.Rate{},
		Class("free", algo.PerSecond(Fast/2), algo.PerSecond(Fast), client),
		Class("other", algo.PerSecond(Fast/4), algo.PerSecond(Fast)))))
}

// Row returns what a tree counted of a path.
func Row(t *htb.Tree, now htb.Time, path string) htb.Stats {
	for _, row := range t.Stats(now) {
		if row.Path == path {
			return row
		}
	}
	return htb.Stats{}
}
