// Package hugepage asks the system to back large tables with huge pages. A table whose
// parts are looked at in random order has more pages of the usual size than the processor
// keeps addresses of, and looking one up takes as long as a miss of the cache.
package hugepage
