// Package repo holds the laws of this repository, as tests: what every package,
// import and comment keeps to and no compiler checks. Each law is a function from
// parsed files to complaints; it is run on the repository, where it must find
// nothing, and on a fixture that breaks it, where it must find what is wrong.
package repo
