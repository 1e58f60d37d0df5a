package config

import (
	"cmp"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sluice/sluice/algo"
)

// The units that tc knows, in any case. Those of rates are in rate.go.
var (
	tcNumber  = `^([0-9]+\.?[0-9]*|\.[0-9]+)`
	tcRateExp = regexp.MustCompile(tcNumber + `(` + bitUnit + `|` + bpsUnit + `)?$`)
	tcSizeExp = regexp.MustCompile(tcNumber + `([a-zA-Z]*)$`)
	tcSizes   = map[string]int64{ // in bits
		"": 8, "b": 8, "k": 8 << 10, "kb": 8 << 10, "m": 8 << 20, "mb": 8 << 20, "g": 8 << 30, "gb": 8 << 30,
		"kbit": 1 << 10, "mbit": 1 << 20, "gbit": 1 << 30,
	}
	tcZeroExp = regexp.MustCompile(`^(0+\.?0*|\.0+)[a-zA-Z]*$`)
)

// maxSize is the largest size that tc takes, in bytes.
const maxSize = math.MaxUint32

// zeroForm reports whether s is some form of 0.
func zeroForm(s string) bool { return tcZeroExp.MatchString(s) }

// rate reads a rate, which comes out as whole bytes per second; the zero Rate
// after a mistake.
func (o *options) rate(name string, w word) algo.Rate {
	m := tcRateExp.FindStringSubmatch(w.text)
	switch {
	case len(w.text) > maxText:
		o.say(w.line, o.at, "%s %.40q is too long for a rate: write such as 300kbit", name, w.text)
		return algo.Rate{}
	case strings.HasSuffix(w.text, "%"):
		o.say(w.line, o.at, "%s %.40q is a share of a device's speed, which is not known here: write the rate itself, such as 300kbit", name, w.text)
		return algo.Rate{}
	case m == nil:
		o.say(w.line, o.at, "%s %.40q is no rate: write such as 300kbit for bits per second, 40kbps for bytes per second", name, w.text)
		return algo.Rate{}
	}
	factor, _ := multiple(cmp.Or(m[2], "bit"))
	n, _ := new(big.Rat).SetString(m[1])
	n.Mul(n, factor)
	bytes := new(big.Int).Quo(n.Num(), n.Denom())
	if bytes.Sign() == 0 && n.Sign() > 0 {
		o.say(w.line, o.at, "%s %.40q is less than a byte per second, the least that tc counts: write 8bit or more", name, w.text)
	}
	if bytes.Sign() == 0 {
		return algo.Rate{}
	}
	if !bytes.IsInt64() || bytes.Int64() > 1_000_000_000_000 {
		o.say(w.line, o.at, "%s %.40q is above the largest rate, 8tbit: write a lower one", name, w.text)
		return algo.Rate{}
	}
	if !n.IsInt() {
		o.warnings.say(w.line, o.at, "%s %.40s is no whole number of bytes per second, and tc cuts it to %v: write %sbps to say so", name, w.text, bytes, bytes)
	}
	return algo.PerSecond(bytes.Int64())
}

// size reads a number of bytes, 0 after a mistake. What tc writes behind a slash,
// the size of a cell of a table that its kernel no longer has, is not used.
func (o *options) size(name string, w word) int64 {
	text, cell, celled := strings.Cut(w.text, "/")
	n := tcSize(text)
	switch {
	case n == nil || celled && tcSize(cell) == nil:
		o.say(w.line, o.at, "%s %.40q is no size: write such as 2000 for bytes, or 15k", name, w.text)
		return 0
	case n.Cmp(big.NewRat(maxSize, 1)) > 0:
		o.say(w.line, o.at, "%s %.40q is above the largest size, %d bytes: write a smaller one", name, w.text, int64(maxSize))
		return 0
	case n.Cmp(big.NewRat(1, 1)) < 0:
		o.say(w.line, o.at, "%s %.40q is less than a byte: write 1 or more", name, w.text)
		return 0
	}
	bytes := new(big.Int).Quo(n.Num(), n.Denom())
	if !n.IsInt() {
		o.warnings.say(w.line, o.at, "%s %.40s is no whole number of bytes, and tc cuts it to %v: write that", name, text, bytes)
	}
	return bytes.Int64()
}

// tcSize returns the size in bytes, nil if s is none.
func tcSize(s string) *big.Rat {
	m := tcSizeExp.FindStringSubmatch(s)
	if m == nil || len(s) > maxText {
		return nil
	}
	unit, ok := tcSizes[strings.ToLower(m[2])]
	if !ok {
		return nil
	}
	n, _ := new(big.Rat).SetString(m[1])
	return n.Mul(n, big.NewRat(unit, 8))
}

// number reads a plain whole number, 0 after a mistake.
func (o *options) number(name string, w word) int64 {
	n, err := strconv.ParseUint(w.text, 10, 32)
	if err != nil {
		o.say(w.line, o.at, "%s %.40q is no whole number from 0 to %d: write such as %s %s", name, w.text, uint32(math.MaxUint32), name, cmp.Or(exampleValues[name], "10"))
		return 0
	}
	return int64(n)
}
