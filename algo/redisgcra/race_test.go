//go:build race

package redisgcra

const raceEnabled = true
