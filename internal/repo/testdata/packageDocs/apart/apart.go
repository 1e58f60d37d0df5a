// Package apart has a blank line below its comment.

package apart // want
