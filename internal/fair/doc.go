// Package fair works out who should get how much: the ideal division of a class tree's capacity
// in one step of time, as a function of demands and tree alone. It knows no packets, queues,
// buckets or order of arrival; capacity is a fluid that can be divided at will. A simulator
// that prints this beside what its scheduler or policer really let through shows how far from
// ideal it is, so nothing here shares code with those.
//
// # The model
//
// A class has a guarantee (Rate), a limit (Ceil), and takes part in sharing by Prio and
// Quantum. All amounts are units within the step: rate times the step's length plus what was
// saved before it. A leaf wants what was offered to it, an inner class what its children want,
// and neither ever more than its ceil.
//
// [Strict] divides from the root down, each class among its own children:
//
//	wants  = min(ceil, offered)              for a leaf
//	wants  = min(ceil, sum of children's)    for an inner class
//	has    = min(wants, rate)                its guaranteed part
//	gets   = has + increment
//
// The root gets min(wants, rate), for there is nobody it could borrow from. What a class gets
// beyond the sum of its children's has is its excess. It goes to the children of the lowest
// prio first. Within a prio the increments are weighted max-min fair: all rise together, each
// at the speed of its quantum, and one that reaches what it wants leaves its share to the rest.
//
// The names and the idea of borrowing are those of Linux's HTB queueing discipline, where the
// same words mean something a little different. [Kernel] is that other reading: a leaf within
// its rate sends whatever the state of the classes above it, and an inner class lends to the
// leaves below it, however deep, by the leaves' own prio and quantum. The deepest inner classes
// lend first, the root last. A class at its ceil borrows from nobody above it, nor do its
// leaves.
//
// # An example
//
// A capacity of 1000, where acme has 600 (ceil 1000) and free has 100 (ceil 400); below free
// are alice and bob with 50 each (ceil 300) and one quantum. acme offers 500, bob 120, and
// alice all she can.
//
//	class        wants    has   gets
//	global         900    900    900
//	acme           500    500    500
//	free           400    100    400
//	free/alice     300     50    280
//	free/bob       120     50    120
//
// The root's children have 600 of its 900 between them; the excess of 300 is just what free
// still wants. Of the 400 that free gets, 100 are guarantees, and 300 are shared evenly until
// bob is content with 70, which leaves 230 to alice. 100 of the 1000 stay unused, because
// free's ceil binds.
//
// # Reserve
//
// A policer answers at once, so it cannot take back what it has lent. A child that is idle now
// may claim its saved guarantee a moment later, so a class lends no more than what lies above
// the sum its children still hold:
//
//	own  = sum of children's has
//	held = sum of children's min(burst, rate - has)     (Hold, if oversubscribed)
//	ceil becomes max(min(own, ceil), ceil - held)
//	rate becomes max(min(own, rate), rate - held)
//
// bottom-up, before anything is divided ([Options], Reserve). What a class holds is counted by
// its rate as given: the reserve of a grandchild is part of it.
//
// # Laws
//
// A tree is covered when no class has a ceil below its rate, and the children's rates add up to
// no more than their parent's, save below an oversubscribed class.
//
//  1. Conservation: what a class gets is what its children get together.
//  2. Limits: nobody gets more than its ceil, nor than was offered to it. (In Kernel what the
//     classes below an inner one send or lend within their own rates passes its ceil, and
//     nothing else does.)
//  3. Guarantee: in a covered tree a leaf that is not below an oversubscribed class gets at
//     least min(wants, rate).
//  4. Work conservation: a class gets less than was offered only where its own ceil, or that of
//     a class above it, is used up, or all that the root may give is given.
//  5. Max-min (Strict): next to a class that gets less than it wants, no sibling of its prio
//     has a larger increment per quantum.
//  6. Prio (Strict): while a class gets less than it wants, siblings of a later prio have no
//     increment.
//  7. Scale: all amounts times k give the results times k.
//  8. Symmetry: children in another order get the same.
//
// With Reserve the ceils and rates of laws 2 to 6 are the reduced ones.
package fair
