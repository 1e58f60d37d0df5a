package redisgcra

import (
	"crypto/sha1" // not for secrecy: it is how EVALSHA names a script
	_ "embed"
	"encoding/hex"
)

//go:embed gcra.lua
var gcraSource string

//go:embed leaf.lua
var leafSource string

//go:embed exchange.lua
var exchangeSource string

//go:embed heartbeat.lua
var heartbeatSource string

// scripts are those that a limiter uses.
type scripts struct{ gcra, leaf, exchange, heartbeat script }

var production = scripts{newScript(gcraSource), newScript(leafSource), newScript(exchangeSource), newScript(heartbeatSource)}

// script is a Lua script and the name that Redis's cache has for it.
type script struct {
	source string
	sha    any // a string, as an argument
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// args appends how the command that runs the script begins.
func (s *script) args(withSource bool, to []any) []any {
	if withSource {
		return append(to, "eval", s.source)
	}
	return append(to, "evalsha", s.sha)
}
