package config

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-sluice/sluice/algo"
)

// ParseTC reads a file of commands for Linux's tc, in the form that tc -batch
// takes or with tc before each, that adds the classes of one htb qdisc; name is
// what its mistakes call it. The error is [Errors], everything that is wrong.
//
// The File counts bytes, has semantics kernel and is called after the file,
// without its ending. A class is called by its classid, hexadecimal and without
// leading zeros: "1:10". The root is the class whose parent is the qdisc; children
// stand in the order of their classids, as the kernel keeps them. Defaults are
// filled in, and are tc's: ceil is rate, a burst is what its rate brings in a
// millisecond and 1600 bytes, quantum is rate / r2q within 1000 to 200000. Rates
// are cut to whole bytes per second and sizes to whole bytes, as tc does.
//
// Since classids are unique, load files name a leaf by its classid alone. The map
// leads from each, the root's included, to the path that htb knows the class by.
//
// [htb.Spec.Check] may well find fault with the Root: it is about trees that
// police, where promises must be covered.
func ParseTC(name string, data []byte) (*File, map[string][]string, error) {
	r := &report{file: name}
	t := &tc{report: r, warnings: report{file: name}, r2q: 10, byID: map[classID]*tcClass{}}
	if len(data) > maxFile {
		r.say(1, whole{}, "the file has %d bytes, the most is %d", len(data), maxFile)
		return nil, nil, r.err()
	}
	for _, words := range commands(data) {
		t.command(words)
	}
	t.chooseQdisc()
	root := t.link()
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	base := filepath.Base(name)
	f := &File{Name: name, Tree: strings.TrimSuffix(base, filepath.Ext(base)), Unit: Bytes, Semantics: "kernel"}
	paths := make(map[string][]string, len(t.classes))
	f.Root, f.Settings = t.build(root, nil, paths)
	f.Warnings = t.warnings.errors()
	return f, paths, nil
}

// classID is the number of a class or, where the lower half is 0, of a qdisc.
type classID uint32

func (c classID) String() string { return fmt.Sprintf("%x:%x", c.major(), uint32(c)&0xffff) }

func (c classID) major() uint32  { return uint32(c) >> 16 }
func (c classID) isQdisc() bool  { return c&0xffff == 0 }
func (c classID) qdisc() classID { return c &^ 0xffff }

// parseClassID reads "1:10". "1:" and "1:0" are the qdisc.
func parseClassID(s string) (classID, bool) {
	major, minor, ok := strings.Cut(s, ":")
	if !ok || major == "" {
		return 0, false
	}
	id := uint64(0)
	for _, half := range [...]string{major, cmp.Or(minor, "0")} {
		n, err := strconv.ParseUint(strings.TrimPrefix(half, "0x"), 16, 16)
		if err != nil {
			return 0, false
		}
		id = id<<16 | n
	}
	return classID(id), id>>16 != 0
}

// word is one word of a file, and its line.
type word struct {
	text string
	line int
}

// commands splits data into commands and those into words. What follows a # is a
// comment, and a line that ends in \ goes on in the next.
func commands(data []byte) (list [][]word) {
	var words []word
	line := 0
	for text := range bytes.Lines(data) {
		line++
		text, _, _ = bytes.Cut(text, []byte("#"))
		text, more := bytes.CutSuffix(bytes.TrimSpace(text), []byte(`\`))
		for w := range bytes.FieldsSeq(text) {
			words = append(words, word{string(w), line})
		}
		if !more && len(words) > 0 {
			list, words = append(list, words), nil
		}
	}
	if len(words) > 0 {
		list = append(list, words)
	}
	return list
}

// tc reads the classes of a file.
type tc struct {
	*report
	warnings report
	dev      word // that of the first class or htb qdisc; its text is "" before
	qdiscs   []tcQdisc
	r2q      int64
	classes  []*tcClass // in the order of the file
	byID     map[classID]*tcClass
	lost     bool // a class has no id that could be read: others may name it as their parent
}

// tcClass is one class line.
type tcClass struct {
	id, parent classID
	line       int
	marks      []mark

	rate, ceil    algo.Rate
	burst, cburst int64 // 0 when the file does not say, as all of these
	prio          int
	quantum       int64
	children      []*tcClass
	onTop         bool // its parent is the qdisc
}

// tcQdisc is one htb qdisc line.
type tcQdisc struct {
	line   int
	handle classID // 0 when the line does not say
	r2q    int64   // likewise
}

// verbs are what a class or qdisc line may do and still describe a tree.
var verbs = []string{"add", "replace", "change"}

func (t *tc) command(words []word) {
	if words[0].text == "tc" && len(words) > 1 {
		words = words[1:]
	}
	first, line, rest := words[0].text, words[0].line, words[1:]
	adds := len(rest) > 0 && slices.Contains(verbs, rest[0].text)
	switch {
	case first == "class" && adds:
		t.class(line, rest[1:])
	case first == "class":
		t.say(line, whole{}, "is a class line that adds none: write class %s, or take it out", join(verbs))
	case first == "qdisc" && adds && slices.ContainsFunc(rest, func(w word) bool { return w.text == "htb" }):
		t.qdisc(line, rest[1:])
	case first == "qdisc":
		t.warnings.say(line, whole{}, "a qdisc line other than htb's is not read: every leaf has a FIFO")
	case first == "filter":
		t.warnings.say(line, whole{}, "a filter line is not read: whoever asks says of which class")
	default:
		t.say(line, whole{}, "%.40q is no command that is read here: write lines such as %s, one class on each", first, exampleTC)
	}
}

const exampleTC = "class add dev eth0 parent 1:1 classid 1:10 htb rate 300kbit"

// options are the words of a command that come in pairs: a name and its value.
type options struct {
	*tc
	line   int
	at     spot
	values map[string]word
	torn   bool // not read to its end, so that what is missing may be there
}

// value returns what stands after name, ok being false if nothing does.
func (o *options) value(name string) (word, bool) {
	w, ok := o.values[name]
	return w, ok
}

// aliases are the options of an htb class by the names they may have.
var aliases = map[string]string{
	"rate": "rate", "ceil": "ceil", "prio": "prio", "quantum": "quantum",
	"burst": "burst", "buffer": "burst", "maxburst": "burst",
	"cburst": "cburst", "cbuffer": "cburst", "cmaxburst": "cburst",
	"mtu": "mtu", "mpu": "mpu", "overhead": "overhead",
}

// ignored are options that change what the kernel reckons a packet to cost, which
// is said to the tree here.
var ignored = []string{"mtu", "mpu", "overhead"}

// class reads a class line from after its verb.
func (t *tc) class(line int, words []word) {
	c := &tcClass{line: line}
	o := options{tc: t, line: line, at: whole{}, values: map[string]word{}}
	for i, w := range words[:max(0, len(words)-1)] {
		if id, ok := parseClassID(words[i+1].text); w.text == "classid" && ok && !id.isQdisc() {
			o.at = id
		}
	}
	rest, ok := o.head(words, "class")
	if ok {
		o.tail(rest)
	}
	o.identity(c)
	if ok {
		o.own(c)
	}
	for _, name := range [...]string{"rate", "ceil", "burst", "cburst", "prio", "quantum"} {
		if w, ok := o.value(name); ok {
			c.marks = append(c.marks, mark{name, w.line, false})
		}
	}
}

// headWords are those that stand before the options of htb.
var headWords = []string{"dev", "parent", "root", "classid", "handle", "htb"}

// head reads what stands before the word htb and returns what stands after it; ok
// is false when there is none, which it reports.
func (o *options) head(words []word, kind string) (rest []word, ok bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch w.text {
		case "htb":
			return words[i+1:], true
		case "root":
			o.set("parent", w)
		case "dev", "parent", "classid", "handle":
			if i+1 == len(words) || slices.Contains(headWords, words[i+1].text) {
				o.say(w.line, o.at, "%s has no value: write such as %s", w.text, exampleTC)
				o.values[w.text] = word{"", w.line}
				continue
			}
			i++
			o.set(w.text, words[i])
		case "hfsc", "drr", "qfq", "cbq", "ets", "prio":
			o.say(w.line, o.at, "is a %s of %s: only htb's are read", kind, w.text)
			o.torn = true
			return nil, false
		default:
			o.torn = true
			o.say(w.line, o.at, "%.40q is neither dev, parent, classid nor htb: write such as %s", w.text, exampleTC)
			return nil, false
		}
	}
	o.say(o.line, o.at, "does not say htb: write such as %s", exampleTC)
	return nil, false
}

// tail reads what stands after the word htb.
func (o *options) tail(words []word) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, known := aliases[w.text]
		switch {
		case !known:
			o.say(w.line, o.at, "%.40q is no option of an htb class: write rate, ceil, burst, cburst, prio or quantum", w.text)
			for i+1 < len(words) && aliases[words[i+1].text] == "" {
				i++ // its value
			}
		case i+1 == len(words) || aliases[words[i+1].text] != "":
			o.say(w.line, o.at, "%s has no value: write such as %s %s", w.text, w.text, exampleValues[name])
			o.values[name] = word{"", w.line}
		default:
			i++
			o.set(name, words[i])
		}
	}
}

var exampleValues = map[string]string{
	"rate": "300kbit", "ceil": "1mbit", "burst": "2000", "cburst": "2000", "prio": "1", "quantum": "3000",
	"mtu": "1600", "mpu": "64", "overhead": "4",
}

func (o *options) set(name string, w word) {
	if first, ok := o.values[name]; ok {
		o.say(w.line, o.at, "%s stands twice, first on line %d: keep one of them", name, first.line)
		return
	}
	o.values[name] = w
}

// identity reads which class it is, and of what.
func (o *options) identity(c *tcClass) {
	o.device()
	if w, ok := o.value("classid"); !ok || w.text == "" {
		o.lost = true
		if !ok && !o.torn {
			o.say(o.line, o.at, "has no classid: write such as classid 1:10")
		}
	} else if id, ok := parseClassID(w.text); !ok {
		o.lost = true
		o.say(w.line, o.at, "classid %.40q is none: write two hexadecimal numbers up to ffff, such as 1:10", w.text)
	} else if id.isQdisc() {
		o.lost = true
		o.say(w.line, o.at, "classid %v is the qdisc's: write a number after the colon, such as %x:10", id, id.major())
	} else if first := o.byID[id]; first != nil {
		o.say(w.line, o.at, "stands twice, first on line %d: keep one of them, with the values that hold in the end", first.line)
	} else {
		c.id = id
		o.byID[id] = c
		o.classes = append(o.classes, c)
		if major := o.classes[0].id.qdisc(); id.qdisc() != major {
			o.say(w.line, o.at, "belongs to the qdisc %x:, the class of line %d to %x:: keep the classes of one, the others in a file of their own", id.major(), o.classes[0].line, major.major())
		}
	}
	switch w, ok := o.value("parent"); {
	case !ok && o.torn:
	case !ok:
		o.say(o.line, o.at, "has no parent: write parent 1:1 for the class that it shares, or parent 1: for the one class at the top")
	case w.text == "root":
		c.parent = c.id.qdisc()
	case w.text != "":
		if c.parent, ok = parseClassID(w.text); !ok {
			o.say(w.line, o.at, "parent %.40q is none: write a classid such as 1:1, or 1: for the qdisc", w.text)
		} else if c.parent.isQdisc() && c.id != 0 && c.parent != c.id.qdisc() {
			o.say(w.line, o.at, "parent %x: is not the qdisc of %v: write parent %x:", c.parent.major(), c.id, c.id.major())
			c.parent = 0
		}
	}
	c.onTop = c.parent != 0 && c.parent.isQdisc()
}

// device checks that all lines are about one.
func (o *options) device() {
	w, ok := o.value("dev")
	switch {
	case !ok && o.torn:
	case !ok:
		o.say(o.line, o.at, "has no device: write such as dev eth0")
	case w.text == "": // reported
	case len(w.text) > 15 || !utf8.ValidString(w.text) || strings.ContainsFunc(w.text, func(c rune) bool { return c == '/' || !unicode.IsPrint(c) }):
		o.say(w.line, o.at, "%.40q cannot be a device: write a name of at most 15 letters, such as eth0", w.text)
	case o.dev.text == "":
		o.dev = w
	case o.dev.text != w.text:
		o.say(w.line, o.at, "is on device %.40q, and line %d is on %.40q: a tree is of one, put the others in a file of their own", w.text, o.dev.line, o.dev.text)
	}
}

// own reads the options of a class, and fills in what they default to but for the
// quantum, for which the qdisc must be known.
func (o *options) own(c *tcClass) {
	for _, name := range ignored {
		if w, ok := o.value(name); ok {
			o.warnings.say(w.line, o.at, "%s is not read: what a request costs is for the load to say", name)
		}
	}
	if w, ok := o.value("rate"); !ok {
		o.say(o.line, o.at, "has no rate: write what it is guaranteed, such as rate 300kbit")
	} else if w.text != "" {
		c.rate = o.rate("rate", w)
		if zeroForm(w.text) {
			o.say(w.line, o.at, "rate %.40q is none: write what it is guaranteed, such as rate 300kbit", w.text)
		}
	}
	c.ceil = c.rate
	if w, ok := o.given("ceil"); ok {
		c.ceil = o.rate("ceil", w)
		if !c.ceil.IsZero() && c.ceil.Compare(c.rate) < 0 {
			o.warnings.say(w.line, o.at, "ceil %v is below the rate, %v: the class never has more than its ceil", c.ceil, c.rate)
		}
	}
	c.burst, c.cburst = usualBurst(c.rate), usualBurst(c.ceil)
	if w, ok := o.given("burst"); ok {
		c.burst = o.size("burst", w)
	}
	if w, ok := o.given("cburst"); ok {
		c.cburst = o.size("cburst", w)
	}
	if w, ok := o.value("prio"); ok && w.text != "" {
		prio := o.number("prio", w)
		if prio > 7 {
			o.warnings.say(w.line, o.at, "prio %d counts as 7, the last there is", prio)
		}
		c.prio = int(min(prio, 7))
	}
	if w, ok := o.given("quantum"); ok {
		c.quantum = o.number("quantum", w)
	}
}

// given is value for the options of which tc takes a 0 for not there.
func (o *options) given(name string) (word, bool) {
	w, ok := o.value(name)
	if ok && zeroForm(w.text) {
		o.warnings.say(w.line, o.at, "%s %.40s counts as left out: leave it out, or write such as %s %s", name, w.text, name, exampleValues[name])
		return w, false
	}
	return w, ok && w.text != ""
}

// usualBurst is the burst of a class that has none: what the rate brings in a
// millisecond, and a packet of 1600 bytes.
func usualBurst(r algo.Rate) int64 {
	ms := new(big.Rat).Mul(r.Fraction(), big.NewRat(1_000_000, 1))
	return new(big.Int).Quo(ms.Num(), ms.Denom()).Int64() + 1600
}
