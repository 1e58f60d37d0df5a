// Package redisgcra is an exact GCRA rate limiter whose state lives in Redis, so that
// many processes share one limit and a limit outlives its process.
//
// A bucket of rate r and burst b is one theoretical arrival time, the TAT: the instant
// at which it is full again. A request of cost c takes c*T, T = 1/r, and
//
//	passes if max(now, TAT) + c*T <= now + b*T, and then TAT = max(now, TAT) + c*T.
//
// now is the Redis server's TIME, in microseconds: clocks of clients do not matter. T
// in microseconds is a fraction a/d in lowest terms, and a TAT whole microseconds and a
// numerator over d. The costs c*T come from here, in 128 bits; the script only adds and
// compares, in integers below 2^53, where Lua's numbers are exact. So nothing drifts:
// 3 per second have T = 1000000/3 and a TAT such as 1000000000333333 + 1/3.
//
// One decision is one script on one key, so this runs on Redis Cluster. The key expires
// when its buckets are full, which is what no key means. A refusal writes nothing. A TAT
// further ahead than an empty bucket's (the server's clock fell back, or the limit was
// raised) counts as an empty bucket's. What Redis forgets, restarted without its data
// or failing over to a replica that lags, costs at most one extra burst.
//
// A [Leaf] is two buckets in one key, rate and ceil, as a class of a tree has them: the
// script is told what the classes above would do, so borrowing costs no second trip. It
// may have further limits in that key, and [Leaf.Settle] corrects a cost afterwards.
//
// [Limiter.Exchange] is for classes that every gateway decides on by a copy of its own,
// with no trip at all: it tells what the copies used, and what all of them owe together.
//
// # Round trips
//
// A lone request goes out at once. While it is under way others wait, and go together
// as one pipeline, those of one key as one call of the script. One slow answer delays
// at most what was asked with it and what waits for it, until each caller's timeout:
//
//	64 callers, 100 us a trip: 64 decisions in one trip, instead of 64 trips
//
// A decision, and a settlement, is executed at most once. It is sent again only where
// Redis says it was not executed: NOSCRIPT, and MOVED and ASK on a cluster. The retries
// of go-redis do not apply to it, whatever MaxRetries says; after a connection that broke
// or an answer that did not come in time it is unknown whether it was charged, and the
// caller gets an error. An exchange, by contrast, may be repeated and is.
//
// On a cluster or ring each node has pipelines of its own, so that one that hangs delays
// nobody who asks another. After a connection broke, the client is made to ask the
// cluster who has the slots now, which go-redis by itself does every minute.
package redisgcra
