package redisgcra

import (
	"crypto/sha1" // not for secrecy: it is how EVALSHA names a script
	_ "embed"
	"encoding/hex"
)

//go:embed gcra.lua
var source string

// script is a Lua script and the name that Redis's cache has for it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

var production = newScript(source)
