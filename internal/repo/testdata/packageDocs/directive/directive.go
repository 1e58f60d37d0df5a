//go:generate true
package directive // want
