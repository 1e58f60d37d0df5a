// Package other is a comment that was copied.
package misnamed // want
