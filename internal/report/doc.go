// Package report writes a finished run as a table, as JSON and as CSV.
package report
