package redisgcra

import "errors"

// Errors that callers branch on. A cost that can never pass wraps [algo.ErrCost]; a
// context's end, its cause; the rest is what go-redis returns.
var (
	// ErrTimeout: no answer within Options.Timeout. The request may have been charged.
	ErrTimeout = errors.New("no answer from Redis in time")
	// ErrBusy: as many requests wait as may. Nothing was charged.
	ErrBusy = errors.New("too many requests wait for Redis")
	// ErrClosed: the limiter was closed. Nothing was charged.
	ErrClosed = errors.New("limiter is closed")
	// ErrName: a key or the name of a tree is empty or too long.
	ErrName = errors.New("bad name")
)
