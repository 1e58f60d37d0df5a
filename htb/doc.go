// Package htb shares one capacity among a tree of classes: hierarchical token
// buckets with borrowing. A class has a rate that is guaranteed and a ceil that it
// may reach by borrowing what the class above it leaves idle; nobody loses what it
// was guaranteed. The tree polices: each request is answered at once, with a yes or
// a no, and the time to retry.
//
//	tree, err := config.Load("tree.yaml")
//	d, err := tree.Allow(sluice.Now(), 1, "free", "alice")
//	if !d.Allowed { ... d.RetryAfter, d.RefusedBy(), d.Reason }
//
// Time is an argument of every call; nothing in this package reads a clock.
//
// # Where it comes from
//
// The words, and the idea, are those of Linux tc-htb (Martin Devera, "Hierarchical
// token bucket theory", 2002), itself after the link sharing of Floyd and Jacobson
// ("Link-sharing and resource management models for packet networks", 1995). HTB is
// a queue: it delays, and the order in which it serves its queues is what keeps
// guarantees. A policer has no queue. Here the arithmetic must keep them, at every
// instant, whatever comes: that is what the reserve below is for.
//
// # Words and symbols
//
//	class     a node of the tree; leaves take traffic, inner classes share it
//	cost c    units a request uses: a whole number, at least 1 (0 only asks)
//	rate, B   guaranteed units per second, and the burst: how many may be saved up
//	ceil, CB  the most a class may reach with borrowing, and its burst (cburst)
//	R, C      tokens in a class's rate bucket and in its ceil bucket, now
//	V         an inner class's reserve: the sum of its children's R, now (a child
//	          in debt counts as empty)
//	lends     units lent to descendants
//	borrows   units taken from classes above
//
// Both buckets start full, at B and CB. R grows by rate, C by ceil, up to their
// bursts; see package algo for how this is kept without rounding.
//
// # One decision
//
// A request of cost c at a leaf passes when some class on the way from the leaf to
// the root, the lender, can pay it:
//
//	the lender is the leaf:    R >= c and C >= c there
//	the lender is further up:  C >= c at the leaf,
//	                           C >= c + V at each class above it up to the lender,
//	                           R >= c + V at the lender
//	either way:                R >= c and C >= c at each class above the lender
//
// The nearest such class lends. Then C falls by c on the whole path, and R from the
// lender up; the classes below the lender have borrowed, and keep their R. A refused
// request changes nothing anywhere.
//
// The refusing class is the first from the leaf up that stands in the way: it is at its
// ceil (C < c), or what it has left under its ceil its other children may claim; if no
// class does, it is the root, which has nothing to lend. Where there is something to
// lend, but for others, it is the first class whose child has had its share.
//
// # Why the reserve
//
// A class that lends must not lend what its other children have saved and may claim
// the next moment: so only what lies over V. Every class then holds R >= V and
// C >= V at all times, given that the books balance: rates of children add up to no
// more than the rate, their bursts to no more than the burst, ceil >= rate and
// cburst >= burst. A leaf with R >= c finds V >= c in its parent, hence R >= c and
// C >= c there, and so on up: its request passes. [New] refuses a tree whose books
// do not balance.
//
// An inner class's burst is, by default, the sum of its children's and headroom: the
// larger of a tenth of a second of its rate and the largest burst of a leaf below,
// at least 1. Without headroom a class whose children are idle has nothing over V.
//
// A class above a template, or one marked Oversubscribed, promises more than it has.
// Its V is a bucket of its own rate and of its burst less headroom, charged with what
// its children send on their own rates, and its burst one second of its rate and
// headroom. Below it guarantees are best effort; its neighbours keep theirs.
//
// # Fair shares
//
// What a class passes on to its children beyond their guarantees goes by prio, the
// lowest first, and within a prio max-min fairly by quantum, level by level: all that
// borrow get as much for their quantum, but for those who want less. Nothing queues, so
// a class reckons with marks:
//
//	m   a child's mark: what it borrowed, over its quantum
//	K   the class's clock, one for each prio of its children: the largest mark at which
//	    any of them was served
//
// A child with m <= K is behind, one with m > K ahead: it has had its share. Those behind
// may borrow all that lies over V. One ahead leaves a part P of it, at most a third of
// what the class can have over V, and so does one of a later prio (more, where there are
// several); "R >= c + V" above reads R >= c + V + P for them, C likewise. A loan raises m by c over the quantum and K to where m
// was. So tokens wait a moment for who is behind, and go to anyone before they would be
// lost: a lone borrower gets all there is, and who asks a thousand times as often as its
// neighbours no more than they. A child that has not asked for a while makes up for one or
// two windows: of a tenth of a second or, if that is longer, of the time in which the
// class's ceil brings what it can have over V. docs/fair-borrowing.md has the method, its bounds and what it was
// measured against.
//
// # A worked example
//
//	global  rate 10/s                    burst 6 = 2 + 2 + headroom 2
//	  web   rate  6/s, ceil 10/s         burst 2
//	  mail  rate  3/s, ceil 10/s         burst 2
//
//	                        web         mail   global
//	time     asks           R    C      R      R    C    V
//	0 s                     2    2      2      6    6    4
//	0 s      web, cost 1    1    1      2      5    5    3    web's own
//	0 s      web            0    0      2      4    4    2    web's own
//	0 s      web            0    0      2      4    4    2    no: web is at its ceil,
//	                                                          C = 0 < 1, until 0.1 s
//	0.1 s    (before)       0.6  1      2      5    5    2.6
//	0.1 s    web            0.6  0      2      4    4    2.6  web's R = 0.6 < 1, and
//	                                                          R = 5 >= 1 + 2.6: global lends
//	0.2 s    (before)       1.2  1      2      5    5    3.2
//	0.2 s    web            0.2  0      2      4    4    2.2  web's own
//	0.2 s    mail, twice    0.2  0      0      2    2    0.2  mail's own, as promised
//
// # The laws
//
// With the books balanced:
//
//	(a) In any window of length w no class gets more than cburst + ceil*w, at any
//	    level. A settlement counts when it is made; upward ones may exceed it.
//	(b) A leaf that stays inside rate*t + burst is never refused, whatever the
//	    others do, while no class above it is in debt (see [Hold]).
//	(c) A refused request changes no bucket, and no counter but wants and rejected.
//	    (One that came first in line and found too few tokens has as many kept together
//	    for it until it can have come back: a claim.)
//	(d) What a class lends and borrows equals what its children borrow; the root
//	    never borrows; wants, gets and rejected add up level by level.
//	(e) A lone leaf reaches its ceil, and a saturated tree gives out all it has.
//	(f) Settling to the true cost ends in the state of charging it at first, if the
//	    same class would have lent and no bucket on the path was full in between.
//	(g) Below a template's max, dropping children at rest changes no decision.
//	(h) Concurrent callers get what some order of the same calls gets.
//	(i) Replacing a tree by itself changes no decision.
//	(j) An oversubscribed class takes nothing from its neighbours.
//
// Handles that take units in advance, to decide without a lock, keep to (a) and (c) but for
// what they have in hand: see [Leased].
//
// Each has a property test of the same letter in laws_test.go, and the decision
// itself is compared with a naive reference in reference_test.go.
package htb
