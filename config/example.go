package config

import _ "embed"

// ExampleTree is config/tree.yaml: a commented tree that needs nothing but
// itself. It is what htbsim runs when it is given no tree.
//
//go:embed tree.yaml
var ExampleTree []byte

// ExampleLoad is config/load.yaml, a load for [ExampleTree] that shows borrowing.
//
//go:embed load.yaml
var ExampleLoad []byte
