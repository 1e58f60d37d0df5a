// Package algo is the flat algorithms, each under its right name, and the arithmetic
// that limiters stand on: time, rates and costs, in integers throughout.
//
// # The algorithms
//
// All are a [Limiter]. In any window of length w, with rate = limit/window for those that
// count in windows, they let through at most
//
//	TokenBucket, GCRA, LeakyMeter   burst + rate*w, and decide the same
//	LeakyQueue                      one request + rate*w, by delaying them
//	DualLeakyBucket                 the least of its limits' burst + rate*w
//	FixedWindow                     limit*(1 + ceil(w/window))
//	SlidingLog                      limit*(1 + floor(w/window))
//	SlidingCounter                  limit + rate*w
//
// and each bound is attained. Every type says its formula, state and source. [Keyed] keeps
// one for every key, in bounded memory.
//
// # The model
//
// A token bucket of rate r (units per second) and burst b (units) and GCRA are
// the same thing seen from two sides. The bucket counts tokens; GCRA keeps one
// instant, the theoretical arrival time (TAT), at which the bucket will be full
// again. With T = 1/r the time one unit takes, a request of cost c at time t
// passes when
//
//	max(t, TAT) + c*T - t <= b*T        and then   TAT = max(t, TAT) + c*T.
//
// A bucket whose TAT is not ahead of t is full: it equals no state at all, so
// the zero TAT is a full bucket. In any window of length w a bucket admits at
// most b + r*w. (ATM Forum, Traffic Management Specification 4.0, section
// 4.4.2, with cost c in place of one cell; for c = 1 the usual tolerance tau is
// (b-1)*T.)
//
// # No rounding
//
// T is seldom a whole number of nanoseconds (3/s, 7e8/s), so T is never formed.
// A [Rate] is kept as a reduced fraction n/p, n units in p nanoseconds, and time
// and cost are multiplied up instead of divided down: a unit is Q ticks, a
// nanosecond brings n*Q/p ticks, and with Q a multiple of p both are whole. A
// [Scale] is such a Q, shared by all buckets that are compared with each other;
// [Ticks] are 128 bits wide, so that the products cannot overflow. Every
// decision is therefore exact, and nothing can drift. Only when a time is told
// to a caller is it rounded, up to the next nanosecond.
//
// Time is an argument: nothing here reads a clock. [Bucket] and [Scale] are for
// those who build limiters; most others want a [TokenBucket].
package algo
