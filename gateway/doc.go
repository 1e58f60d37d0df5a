// Package gateway polices by a tree that several processes share through Redis.
//
// A tree of package htb is one process's. Two settings of a class span processes, which
// are called gateways here:
//
//   - store: redis, on a leaf or a template, keeps its buckets in Redis. Every decision
//     asks there, once, and is exact; what a client has spent outlives the process. The
//     classes above are asked first, and hold what the request costs meanwhile.
//   - sync: 100ms, on any class, keeps Redis off the path of decisions. Each gateway
//     decides on its own copy, reports what it used once in an interval, and is charged
//     what others used.
//
// What that guarantees, what happens when Redis is slow or gone, and what it costs, is
// written in docs/gateways.md. In short, with g gateways, for a class with sync:
//
//	any window of length w admits at most  cburst + ceil*w + (g-1)*cburst + g*ceil*sync
//	any gateway that asks for it has       0.9 * rate / g (half of it while debts are repaid)
//	in the long run all have at most       ceil
//
// # Outages
//
// A call to Redis takes [Options.Timeout] at most, and no command is sent twice. When
// calls fail one after the other a circuit breaker opens, and decisions ask no more, until
// a heartbeat finds Redis back. A decision without Redis follows [Options.OnOutage]:
// [htb.Local], by what was last heard of, each gateway on an equal part; [htb.Closed],
// nothing passes that needs Redis; or [htb.Open], everything does that other classes admit.
package gateway
