// Package trace reads recorded traffic and yields it as requests in the order
// of time, so that it can be replayed through a tree.
//
// A trace is one of
//
//   - an access log in the common or combined format of Apache and nginx,
//     host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326,
//     where fields after the size are not looked at;
//   - a CSV with the columns time (seconds, a plain decimal), class (a path such
//     as free/alice) and cost (a whole number of at least 1), in any order,
//     named in its first line.
//
// Which one it is, and whether it is compressed with gzip, is seen from the
// content. A file is read twice: [Scan] checks every line and finds the span, so
// that no run starts on a broken trace, then [Open] streams it.
//
// # Order
//
// A server writes a line when a request ends, but stamps it with when it began,
// so real logs are out of order by as much as their slowest request takes. A
// line is therefore held until the newest time seen is more than
// Options.Reorder ahead of its own. What arrives when its time has already been
// passed is late: it is counted, named by its line number, and yielded at once
// at the latest time yielded.
//
// # Whole seconds
//
// An access log knows no fractions, and a thousand requests at one instant would
// exhaust buckets that the same thousand, spread over the second, leave alone.
// So the k-th of the n lines of one second comes at k/n of it. With three
// lines stamped :03 and two stamped :04:
//
//	stamped  :03    :03    :03    :04    :04
//	yielded  0      333ms  666ms  1s     1.5s
//
// # Laws
//
//  1. At never decreases, is never negative, and never exceeds Summary.Span.
//  2. Every line is yielded exactly once, with a cost of at least 1 and a class
//     of at least one name.
//  3. A line that is not late is yielded at its own time: exactly for a CSV,
//     within its own second for an access log.
//  4. A file whose lines are out of place by at most Reorder has no late lines,
//     unless more than MaxHeld of them fall within Reorder.
//  5. Memory depends on MaxHeld, not on the file.
package trace
