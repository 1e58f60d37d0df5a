// Package fault breaks a Redis server, or the way to it, on purpose and for a while, so
// that tests and demonstrations can show what is then done without it.
//
// A [Proxy] stands between a client and a server: it delays, holds or cuts what it passes
// on, and counts it. A [Fault] is one thing that goes wrong, with a beginning and an end;
// [OfServer] and [OfProxy] list them, for tests over all of them.
//
// A fault is on when Begin has returned and over when End has: no waiting is needed after
// either. One server has one fault at a time.
package fault
