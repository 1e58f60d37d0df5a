package config

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/go-sluice/sluice/algo"
)

// Bytes is the unit of a tree in which rates and sizes may be written in bits
// and bytes: 10MB/s, 8mbit, 64KiB.
const Bytes = "bytes"

// ParseRate reads a rate: a number, an optional thousand, million and so on (k,
// M, G, T), a slash and a period. The period is a unit of time (ns, us, ms, s,
// m, h, d, week or year, a year being 365 days; sec, min, hour and day also
// read) or a number of them: 1000/s, 2.5/s, 17/30s, 5000/h, 10k/s.
//
// With unit [Bytes] the number may carry B (10MB/s, 512KiB/s), or one of tc's
// units in any case: bits per second (8mbit, 300kbit, 1mibit) and, as in tc,
// bytes per second (10mbps). k is 1000, ki is 1024.
//
// The rate is exact, and every rate that an algo.Rate prints reads back as itself.
func ParseRate(s, unit string) (algo.Rate, error) {
	r, _, err := parseRate(s, unit)
	if err != nil {
		return algo.Rate{}, fmt.Errorf("config: rate %.40q %w", s, err)
	}
	return r, nil
}

// ParseSize reads a number of units, such as a burst: 2000, 10k, and with unit
// [Bytes] 2MB, 64KiB. It must come out whole and at least 1.
func ParseSize(s, unit string) (int64, error) {
	n, err := parseSize(s, unit)
	if err != nil {
		return 0, fmt.Errorf("config: size %.40q %w", s, err)
	}
	return n, nil
}

// ParseDuration reads a time as Go writes it: 100ms, 2m, 1h30m. It is never
// negative, and a number without a unit is an error.
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("config: duration %.40q %w", s, err)
	}
	return d, nil
}

// The forms that are read, and that the schema shows to editors: therefore no
// more than what Go's and JavaScript's expressions have in common.
const (
	numberForm = `[0-9]+(?:\.[0-9]+)?`
	thousands  = `[kKMGT]`
	byteUnit   = `(?:[kKMGT]i?)?B`
	bitUnit    = `(?:[kKmMgGtT][iI]?)?[bB][iI][tT]`
	bpsUnit    = `(?:[kKmMgGtT][iI]?)?[bB][pP][sS]`
	timeUnit   = `(?:second|sec|minute|min|hour|day|week|year|ns|us|µs|μs|ms|s|m|h|d|w|y)`

	rateForm     = `^(` + numberForm + `)(?:(` + thousands + `|` + byteUnit + `|` + bitUnit + `)?/(` + timeUnit + `|(?:` + numberForm + timeUnit + `)+)|(` + bitUnit + `|` + bpsUnit + `))$`
	sizeForm     = `^(` + numberForm + `)(` + thousands + `|` + byteUnit + `)?$`
	countForm    = `^(` + numberForm + `)(` + thousands + `)?$`
	durationForm = `^(?:` + numberForm + `(?:ns|us|µs|μs|ms|s|m|h))+$`
)

var (
	rateExp     = regexp.MustCompile(rateForm)
	sizeExp     = regexp.MustCompile(sizeForm)
	durationExp = regexp.MustCompile(durationForm)
	pieceExp    = regexp.MustCompile(`(` + numberForm + `)?(` + timeUnit + `)`)
)

// maxText is the longest text that is taken for a number: arithmetic on longer
// ones would take as long as a mischievous file likes.
const maxText = 64

var timeUnits = map[string]time.Duration{
	"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": day, "day": day, "w": 7 * day, "week": 7 * day, "y": 365 * day, "year": 365 * day,
}

const day = 24 * time.Hour

var (
	fastest = new(big.Rat).SetInt64(1000)               // units per nanosecond, as algo has it
	slowest = new(big.Rat).SetFrac64(1, int64(366*day)) // likewise
	errUnit = errors.New("is in bits or bytes, and what is counted here is not: write unit: bytes at the top of the tree, or a plain number")
)

// parseRate returns, beside the rate, how many units its text names before the
// period: 5000 of "5000/h".
func parseRate(s, unit string) (algo.Rate, *big.Rat, error) {
	if len(s) > maxText {
		return algo.Rate{}, nil, errors.New("is too long for a rate: write such as 1000/s")
	}
	m := rateExp.FindStringSubmatch(s)
	if m == nil {
		return algo.Rate{}, nil, explainRate(s)
	}
	factor, sized := multiple(m[2] + m[4])
	if sized && unit != Bytes {
		return algo.Rate{}, nil, errUnit
	}
	count, _ := new(big.Rat).SetString(m[1])
	count.Mul(count, factor)
	if count.Sign() == 0 {
		return algo.Rate{}, nil, errors.New("is no rate: write more than 0")
	}
	period := big.NewRat(int64(time.Second), 1)
	if m[3] != "" {
		period = span(m[3])
	}
	if period.Sign() == 0 {
		return algo.Rate{}, nil, errors.New("has a period of 0: write such as 1000/s")
	}
	perNano := new(big.Rat).Quo(count, period)
	switch {
	case perNano.Cmp(fastest) > 0:
		return algo.Rate{}, nil, errors.New("is above the largest rate, 1000G/s")
	case perNano.Cmp(slowest) < 0:
		return algo.Rate{}, nil, errors.New("is below the smallest rate, 1/year")
	case !perNano.Num().IsInt64() || !perNano.Denom().IsInt64():
		return algo.Rate{}, nil, errors.New("cannot be kept exactly: write fewer digits")
	}
	r, err := algo.NewRate(perNano.Num().Int64(), time.Duration(perNano.Denom().Int64()))
	return r, count, err
}

// explainRate says what is wrong with a text that has not the form of a rate.
func explainRate(s string) error {
	number := regexp.MustCompile(`^` + numberForm).FindString(s)
	rest := s[len(number):]
	switch {
	case s == "":
		return errors.New("is empty: write such as 1000/s")
	case s[0] == '-':
		return errors.New("is negative: write such as 1000/s")
	case number == "":
	case sizeExp.MatchString(s):
		return fmt.Errorf("has no period: write %s/s", s)
	case regexp.MustCompile(`^[kKmMgGtT][iI]?b($|/|it/$)`).MatchString(rest):
		return fmt.Errorf("may mean bits or bytes: write such as %sMB/s for bytes, %smbit for bits", number, number)
	case regexp.MustCompile(`^` + thousands + `?/[0-9.]+$`).MatchString(rest):
		return fmt.Errorf("has a period without a unit: write %ss", s)
	case regexp.MustCompile(`^m/`).MatchString(rest):
		return fmt.Errorf("has an m: write M for a million, k for a thousand")
	case strings.Contains(rest, "/"):
		return errors.New("has a period or a unit that is not known: write such as 1000/s, 5/m, 5000/h, 17/30s, 1/d, 7/week or 1/year")
	}
	return errors.New("is no rate: write a number, a slash and a period, such as 1000/s, 5000/h or 17/30s")
}

// span adds up a period: "s", "30s", "1m30s", in nanoseconds.
func span(s string) *big.Rat {
	sum := new(big.Rat)
	for _, m := range pieceExp.FindAllStringSubmatch(s, -1) {
		n := big.NewRat(1, 1)
		if m[1] != "" {
			n.SetString(m[1])
		}
		sum.Add(sum, n.Mul(n, big.NewRat(int64(timeUnits[m[2]]), 1)))
	}
	return sum
}

// multiple returns what one of a unit counts, and whether it is a unit of bits
// or bytes: "k" 1000, "KiB" 1024, "mbit" 125000, "" 1.
func multiple(unit string) (factor *big.Rat, sized bool) {
	u := strings.ToLower(unit)
	factor = big.NewRat(1, 1)
	for _, end := range [...]string{"bit", "bps", "b"} {
		if rest, ok := strings.CutSuffix(u, end); ok {
			if end == "bit" {
				factor.SetFrac64(1, 8)
			}
			u, sized = rest, true
			break
		}
	}
	u, binary := strings.CutSuffix(u, "i")
	base := int64(1000)
	if binary {
		base = 1024
	}
	for range strings.Index(" kmgt", cmp.Or(u, " ")) { // the power that the letter stands for
		factor.Mul(factor, big.NewRat(base, 1))
	}
	return factor, sized
}

func parseSize(s, unit string) (int64, error) {
	if len(s) > maxText {
		return 0, errors.New("is too long for a number")
	}
	m := sizeExp.FindStringSubmatch(s)
	if m == nil {
		switch rest := strings.TrimPrefix(s, "-"); {
		case s == "":
			return 0, errors.New("is empty: write a whole number, 1 or more")
		case rest != s && sizeExp.MatchString(rest):
			return 0, errors.New("is negative: write a whole number, 1 or more")
		case rateExp.MatchString(s) && strings.Contains(s, "/"):
			return 0, errors.New("is a rate: write a number of units, without a period")
		case unit == Bytes:
			return 0, errors.New("is no number of bytes: write such as 2000, 64KiB or 2MB")
		}
		return 0, errors.New("is no number: write a whole number, such as 20 or 10k")
	}
	factor, sized := multiple(m[2])
	if sized && unit != Bytes {
		return 0, errUnit
	}
	n, _ := new(big.Rat).SetString(m[1])
	n.Mul(n, factor)
	switch {
	case !n.IsInt():
		low := new(big.Int).Quo(n.Num(), n.Denom())
		return 0, fmt.Errorf("is not whole: write %v", low.Add(low, big.NewInt(1)))
	case n.Sign() == 0:
		return 0, errors.New("is too little for anything to pass: write 1 or more")
	case !n.Num().IsInt64():
		return 0, errors.New("is more than can be counted, 2^63-1")
	}
	return n.Num().Int64(), nil
}

func parseDuration(s string) (time.Duration, error) {
	if len(s) > maxText {
		return 0, errors.New("is too long for a duration: write such as 5s")
	}
	if !durationExp.MatchString(s) {
		switch {
		case s == "":
			return 0, errors.New("is empty: write such as 5s")
		case s[0] == '-':
			return 0, errors.New("is negative: write such as 5s")
		case sizeExp.MatchString(s):
			return 0, fmt.Errorf("has no unit: write such as %ss", regexp.MustCompile(numberForm).FindString(s))
		}
		return 0, errors.New("is no duration: write such as 100ms, 5s, 2m or 24h")
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("is longer than can be counted, 292 years")
	}
	return d, nil
}
