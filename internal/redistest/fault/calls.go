package fault

import (
	"bytes"
	"crypto/sha1" // not for secrecy: it is how EVALSHA names a script
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
)

// Call is an EVAL or EVALSHA that a proxy passed on.
type Call struct {
	Seq    int               // from 1, in order over all connections
	Conn   int               // which connection, from 1
	Name   string            // EVAL or EVALSHA
	Script string            // SHA-1 of the script, in hex
	Digest [sha256.Size]byte // of what follows the script: keys and arguments
	Answer string            // what was passed back: the first word of an error, else OK; none as yet: ""
}

// Ran tells whether the server may have run the script: it did not if it had none.
func (c Call) Ran() bool { return c.Answer != "NOSCRIPT" }

// Record lets the proxy note every EVAL and EVALSHA from now on, after forgetting those
// that it has noted.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recording = true
	p.calls = nil
	p.era++
}

// Calls returns what was noted, in order.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Repeats returns the calls that may have run before: same script, keys and arguments. It
// proves that something was sent twice only if all that was to be sent differs, say by
// cost or key.
func (p *Proxy) Repeats() []Call {
	type what struct {
		script string
		digest [sha256.Size]byte
	}
	seen := map[what]bool{}
	var again []Call
	for _, c := range p.Calls() {
		if !c.Ran() {
			continue
		}
		w := what{c.Script, c.Digest}
		if seen[w] {
			again = append(again, c)
		}
		seen[w] = true
	}
	return again
}

// Counts returns how many commands were passed on, and how many answers passed back, what
// a server says unasked not among them. A command counts before the server can answer it,
// an answer before the client can read it.
func (p *Proxy) Counts() (commands, answers int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commands, p.answers
}

// asked is a command that awaits its answer: where in calls it is noted, if it is and era
// is still the proxy's.
type asked struct{ era, call int }

// noted is what a link notes of its two directions.
type noted struct {
	proxy *Proxy
	conn  int
	due   []asked // in order; guarded by the proxy's mutex
}

// commands hears what a client sends.
type commands struct {
	*noted
	args   int // begun
	name   []byte
	script []byte // EVALSHA's, or of one byte more than is needed
	source hash.Hash
	digest hash.Hash
}

func (c *commands) head([]byte) { c.args, c.name, c.script = 0, c.name[:0], c.script[:0] }

func (c *commands) begin(size int) {
	switch c.args++; {
	case c.args == 2:
		c.source.Reset()
		c.digest.Reset()
	case c.args > 2: // so that "a", "b" is not "ab"
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(size))
		c.digest.Write(length[:])
	}
}

// What is longer than this is no command that is noted, and no script's name.
const longName = 2 * sha1.Size

func (c *commands) part(data []byte) {
	short := data[:min(len(data), longName)]
	switch {
	case c.args == 1 && len(c.name) < longName:
		c.name = append(c.name, short...)
	case c.args == 2 && c.is("EVAL"):
		c.source.Write(data)
	case c.args == 2 && c.is("EVALSHA") && len(c.script) < longName:
		c.script = append(c.script, short...)
	case c.args > 2 && (c.is("EVAL") || c.is("EVALSHA")):
		c.digest.Write(data)
	}
}

func (c *commands) is(name string) bool { return bytes.EqualFold(c.name, []byte(name)) }

func (c *commands) tail() {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands++
	a := asked{call: -1}
	if eval := c.is("EVAL"); p.recording && c.args > 1 && (eval || c.is("EVALSHA")) {
		call := Call{Seq: len(p.calls) + 1, Conn: c.conn, Name: strings.ToUpper(string(c.name))}
		if call.Script = strings.ToLower(string(c.script)); eval {
			call.Script = hex.EncodeToString(c.source.Sum(nil))
		}
		c.digest.Sum(call.Digest[:0])
		a = asked{p.era, len(p.calls)}
		p.calls = append(p.calls, call)
	}
	c.due = append(c.due, a)
}

// answers hears what a server sends. It takes them for the answers to the commands in
// order, which is not so after SUBSCRIBE, MONITOR or CLIENT REPLY.
type answers struct {
	*noted
	answer string // "" of what comes unasked
}

func (a *answers) head(line []byte) {
	switch line[0] {
	case '>':
		a.answer = ""
	case '-':
		word, _, _ := strings.Cut(string(line[1:]), " ")
		a.answer = word
	default:
		a.answer = "OK"
	}
}

func (*answers) begin(int)   {}
func (*answers) part([]byte) {}

func (a *answers) tail() {
	if a.answer == "" {
		return
	}
	p := a.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	if len(a.due) == 0 {
		return
	}
	first := a.due[0]
	if a.due = a.due[1:]; first.call >= 0 && first.era == p.era {
		p.calls[first.call].Answer = a.answer
	}
}
