// Package prefetch has memory brought into the caches before it is needed, so that what
// comes next need not wait for it.
package prefetch
