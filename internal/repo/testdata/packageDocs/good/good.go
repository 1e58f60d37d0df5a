// Package good has its comment where it belongs, in one of its files.
package good
