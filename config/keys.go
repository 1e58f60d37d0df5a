package config

import (
	"fmt"
	"regexp"
	"strings"
)

// place is a kind of mapping in a file; a set of them says where a key may stand.
type place uint16

const (
	treeTop place = 1 << iota // tree.yaml itself
	rootLeaf
	rootInner
	plainLeaf
	plainInner
	templateLeaf
	templateInner
	redisBlock
	tlsBlock
	limitEntry // of also
	loadTop    // load.yaml itself
	flowEntry
	costBlock
	serviceBlock

	roots      = rootLeaf | rootInner
	leaves     = rootLeaf | plainLeaf | templateLeaf
	inners     = rootInner | plainInner | templateInner
	templates  = templateLeaf | templateInner
	everyClass = leaves | inners

	treePlaces = treeTop | everyClass | redisBlock | tlsBlock | limitEntry
	loadPlaces = loadTop | flowEntry | costBlock | serviceBlock
)

// kind is what a key holds.
type kind uint8

const (
	kindText     kind = iota // any text
	kindChoice               // one of key.choices
	kindFlag                 // true or false
	kindRate                 // 1000/s
	kindSize                 // units, at least 1: 20, 10k, 64KiB
	kindCount                // likewise, of things that are not the tree's unit
	kindPrio                 // a whole number, in a range that htb checks
	kindInterval             // a duration above 0
	kindMoment               // a duration, 0 too
	kindLimits               // the list of also
	kindClasses              // the classes below one
	kindClass                // one class
	kindBlock                // a mapping with a place of its own
	kindAddrs                // a text or a list of texts
	kindHidden               // a text that messages do not show
	kindVariable             // likewise, the name of an environment variable
	kindDatabase             // a whole number, 0 too
	kindTLS                  // true or false, or a mapping with a place of its own
	kindExponent             // a number, 0 or more
	kindCosts                // a size or a range of them
	kindService              // a duration or a distribution
	kindFlows                // the list of flows
)

// key is one row of the table.
type key struct {
	name    string
	where   place
	kind    kind
	need    bool     // required wherever it may stand (htb asks for a class's rate)
	choices []string // of kind choice, the default first
	example string   // what to write where the value is missing or of the wrong kind
	doc     string   // for the schema, and for people
	belongs string   // said when it stands in a wrong place of the right file
}

// keys is every key of both files.
var keys = []key{
	{name: "tree", where: treeTop, kind: kindText, need: true, example: "tree: api",
		doc:     "The tree's name, in Redis keys and metrics.",
		belongs: "stands at the top of the file"},
	{name: "unit", where: treeTop, kind: kindText, example: "unit: requests",
		doc:     "What a cost counts, a label: requests (the default), tokens, ... With bytes, rates and sizes may be written in bits and bytes.",
		belongs: "stands at the top of the file"},
	{name: "semantics", where: treeTop, kind: kindChoice, choices: []string{"strict", "kernel"}, example: "semantics: strict",
		doc:     "strict: a ceil caps everything below it, prio and quantum compare siblings. kernel: what Linux sch_htb does, for shaping only.",
		belongs: "stands at the top of the file"},
	{name: "redis", where: treeTop, kind: kindBlock, example: `redis: {addr: "localhost:6379"}`,
		doc:     "The Redis server, cluster or Sentinels of classes that say store: redis or sync.",
		belongs: "stands at the top of the file; a class uses it with store: redis or sync"},
	{name: "global", where: treeTop, kind: kindClass, need: true, example: "global: {rate: 1000/s}",
		doc:     "The root of the tree: the capacity that all classes share.",
		belongs: "is the root's name and stands at the top of the file"},

	{name: "addr", where: redisBlock, kind: kindAddrs, need: true, example: `addr: "localhost:6379"`,
		doc:     "host:port of the server, or the path of its Unix socket. Of a cluster or of Sentinels one or more, as a list or with commas between.",
		belongs: "stands under redis:"},
	{name: "timeout", where: redisBlock, kind: kindInterval, example: "timeout: 5ms",
		doc:     "How long a call to Redis may take before the answer is given without it. Default 5ms.",
		belongs: "stands under redis:"},
	{name: "onOutage", where: redisBlock, kind: kindChoice, choices: []string{"local", "closed", "open"}, example: "onOutage: local",
		doc:     "What answers while Redis does not: local, each gateway at its last known share; closed, nothing passes; open, everything does.",
		belongs: "stands under redis:"},
	{name: "cluster", where: redisBlock, kind: kindFlag, example: "cluster: true",
		doc:     "The servers are nodes of a Redis Cluster; those that addr leaves out are asked for.",
		belongs: "stands under redis:"},
	{name: "sentinel", where: redisBlock, kind: kindText, example: "sentinel: mymaster",
		doc:     "The name of the master that Sentinels watch; addr lists the Sentinels, which say where it is.",
		belongs: "stands under redis:"},
	{name: "db", where: redisBlock, kind: kindDatabase, example: "db: 1",
		doc:     "The number of the database. Default 0.",
		belongs: "stands under redis:"},
	{name: "user", where: redisBlock, kind: kindText, example: "user: sluice",
		doc:     "The user of the server's ACL. Default: the one that is called default.",
		belongs: "stands under redis:"},
	{name: "passwordEnv", where: redisBlock, kind: kindVariable, example: "passwordEnv: REDIS_PASSWORD",
		doc:     "The environment variable that holds the password.",
		belongs: "stands under redis:"},
	{name: "passwordFile", where: redisBlock, kind: kindHidden, example: "passwordFile: /run/secrets/redis",
		doc:     "The file that holds the password and nothing else but a line break at its end.",
		belongs: "stands under redis:"},
	{name: "sentinelUser", where: redisBlock, kind: kindText, example: "sentinelUser: sluice",
		doc:     "The user of the Sentinels' ACL. Default: the one that is called default.",
		belongs: "stands under redis:"},
	{name: "sentinelPasswordEnv", where: redisBlock, kind: kindVariable, example: "sentinelPasswordEnv: SENTINEL_PASSWORD",
		doc:     "The environment variable that holds the password of the Sentinels. Default: they need none.",
		belongs: "stands under redis:"},
	{name: "sentinelPasswordFile", where: redisBlock, kind: kindHidden, example: "sentinelPasswordFile: /run/secrets/sentinel",
		doc:     "The file that holds it, instead.",
		belongs: "stands under redis:"},
	{name: "tls", where: redisBlock, kind: kindTLS, example: "tls: {ca: /etc/ssl/redis-ca.pem}",
		doc:     "Talk over TLS: true, or a block. The servers' certificates are always checked, those of Sentinels too.",
		belongs: "stands under redis:"},
	{name: "ca", where: tlsBlock, kind: kindHidden, example: "ca: /etc/ssl/redis-ca.pem",
		doc:     "The file of certificates to trust, in PEM. Default: the system's.",
		belongs: "stands under redis: in tls:"},
	{name: "cert", where: tlsBlock, kind: kindHidden, example: "cert: /etc/ssl/sluice.pem",
		doc:     "The file of the certificate to show to the server, in PEM. Default: none.",
		belongs: "stands under redis: in tls:"},
	{name: "key", where: tlsBlock, kind: kindHidden, example: "key: /etc/ssl/sluice.key",
		doc:     "The file of the key of cert, in PEM.",
		belongs: "stands under redis: in tls:"},
	{name: "serverName", where: tlsBlock, kind: kindText, example: "serverName: redis.internal",
		doc:     "The name that the servers' certificates must be for. Default: the host of each.",
		belongs: "stands under redis: in tls:"},

	{name: "rate", where: everyClass, kind: kindRate, example: "rate: 100/s",
		doc:     "What the class is guaranteed: 1000/s, 5000/h, 2.5/s, 10k/s; with unit: bytes also 10MB/s and 8mbit.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "burst", where: everyClass, kind: kindSize, example: "burst: 20",
		doc:     "Units of guarantee that can be saved up while idle. Default: a leaf, one second of rate; an inner class, those of its children and headroom.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "ceil", where: everyClass, kind: kindRate, example: "ceil: 1000/s",
		doc:     "The most the class may reach with borrowing. Default: rate, no borrowing.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "cburst", where: everyClass, kind: kindSize, example: "cburst: 20",
		doc:     "The burst of ceil. Default: burst.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "prio", where: everyClass, kind: kindPrio, example: "prio: 1",
		doc:     "Who borrows first among siblings, 0 to 7, the lower. Default 0.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "quantum", where: everyClass, kind: kindSize, example: "quantum: 100",
		doc:     "The weight among borrowing siblings of one prio. Default: in proportion to rate.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "also", where: leaves, kind: kindLimits, example: "also: [5000/h]",
		doc:     "Further limits that must admit too: rates, or {rate, burst}. The burst of a plain rate is its count, 5000 of 5000/h.",
		belongs: "is for leaves: write it under each class that has no children"},
	{name: "max", where: templates, kind: kindCount, example: "max: 100000",
		doc:     "Live children a template may have; further names share one. Default 100000.",
		belongs: `is for templates: write it under "*"`},
	{name: "idle", where: templates, kind: kindMoment, example: "idle: 10s",
		doc:     "How long a template's child stays once it is at rest. Default 0s: not at all.",
		belongs: `is for templates: write it under "*"`},
	{name: "limit", where: leaves, kind: kindCount, example: "limit: 1000",
		doc:     "Items a leaf's queue may hold when shaping. Default 1000.",
		belongs: "is for leaves, which have the queues: write it under each class that has no children"},
	{name: "maxWait", where: leaves, kind: kindInterval, example: "maxWait: 30s",
		doc:     "How long an item may be queued when shaping. Default 30s.",
		belongs: "is for leaves, which have the queues: write it under each class that has no children"},
	{name: "pool", where: roots, kind: kindCount, example: "pool: 20",
		doc:     "Items that may be released and not yet done when shaping, for a downstream of a fixed size. Default: no bound.",
		belongs: "bounds the whole tree: write it under global: itself"},
	{name: "store", where: leaves, kind: kindChoice, choices: []string{"memory", "redis"}, example: "store: redis",
		doc:     "Where the leaf keeps its state: memory, or redis, which every decision asks, to outlive the process and span gateways exactly.",
		belongs: "is for leaves: write it under each class that has no children, or sync: 100ms here"},
	{name: "sync", where: everyClass, kind: kindInterval, example: "sync: 100ms",
		doc:     "Decide in memory and settle with the other gateways through Redis at this interval, 10ms to 1m. Default: not at all.",
		belongs: "is for classes: write it under global: or one of its children"},
	{name: "oversubscribed", where: inners, kind: kindFlag, example: "oversubscribed: true",
		doc:     "The class knowingly promises its children more than it has. One above a template always does.",
		belongs: "is for classes with children: take it out"},
	{name: "children", where: everyClass, kind: kindClasses, example: "children: {acme: {rate: 100/s}}",
		doc:     `The classes that share this one, by name. "*" is a template: a child is made for every other name seen.`,
		belongs: "stands in a class: write it under global: or one of its children"},

	{name: "rate", where: limitEntry, kind: kindRate, need: true, example: "rate: 5000/h",
		doc: "The further limit's rate."},
	{name: "burst", where: limitEntry, kind: kindSize, example: "burst: 20",
		doc: "The further limit's burst. Default: the count in its rate."},

	{name: "duration", where: loadTop, kind: kindInterval, need: true, example: "duration: 10s",
		doc: "How long the load lasts, at most ten years.", belongs: "stands at the top of the file"},
	{name: "flows", where: loadTop, kind: kindFlows, need: true, example: "flows: [{class: acme, arrivals: backlogged}]",
		doc: "The flows, in any order.", belongs: "stands at the top of the file"},
	{name: "class", where: flowEntry, kind: kindText, need: true, example: "class: acme",
		doc: "The leaf's path; ending in * for as many leaves as clients says.", belongs: "is for flows"},
	{name: "from", where: flowEntry, kind: kindMoment, example: "from: 2s",
		doc: "When the flow starts. Default 0s.", belongs: "is for flows"},
	{name: "to", where: flowEntry, kind: kindInterval, example: "to: 8s",
		doc: "When it ends. Default: with the load.", belongs: "is for flows"},
	{name: "arrivals", where: flowEntry, kind: kindChoice, need: true, choices: arrivalNames[1:], example: "arrivals: poisson",
		doc: "How requests arrive.", belongs: "is for flows"},
	{name: "cost", where: flowEntry, kind: kindCosts, example: "cost: {min: 1, max: 20}",
		doc: "What a request costs, or a range of costs. Default 1.", belongs: "is for flows"},
	{name: "rate", where: flowEntry, kind: kindRate, example: "rate: 100/s",
		doc: "Units that arrive, over all clients of the flow.", belongs: "is for flows"},
	{name: "clients", where: flowEntry, kind: kindCount, example: "clients: 100",
		doc: "How many leaves under a template the flow is spread over.", belongs: "is for flows"},
	{name: "zipf", where: flowEntry, kind: kindExponent, example: "zipf: 1.1",
		doc: "Exponent of the clients' shares. Default 0: equal.", belongs: "is for flows"},
	{name: "on", where: flowEntry, kind: kindInterval, example: "on: 5s",
		doc: "How long an onoff flow sends.", belongs: "is for flows"},
	{name: "off", where: flowEntry, kind: kindInterval, example: "off: 5s",
		doc: "How long it is then silent.", belongs: "is for flows"},
	{name: "at", where: flowEntry, kind: kindMoment, example: "at: 5s",
		doc: "When a burst starts.", belongs: "is for flows"},
	{name: "count", where: flowEntry, kind: kindCount, example: "count: 200",
		doc: "How many requests a burst has.", belongs: "is for flows"},
	{name: "over", where: flowEntry, kind: kindMoment, example: "over: 100ms",
		doc: "How long a burst takes. Default 0s.", belongs: "is for flows"},
	{name: "service", where: flowEntry, kind: kindService, example: "service: 20ms",
		doc: "How long the downstream works on a request, or {exponential: mean}.", belongs: "is for flows"},
	{name: "min", where: costBlock, kind: kindSize, need: true, example: "min: 1", doc: "The least cost.", belongs: "stands under cost:"},
	{name: "max", where: costBlock, kind: kindSize, need: true, example: "max: 20", doc: "The largest cost.", belongs: "stands under cost:"},
	{name: "exponential", where: serviceBlock, kind: kindInterval, need: true, example: "exponential: 20ms",
		doc: "The mean of exponentially distributed times.", belongs: "stands under service:"},
}

// rows finds the rows of a name; it has more than one where places differ.
var rows = func() map[string][]*key {
	m := make(map[string][]*key)
	for i := range keys {
		m[keys[i].name] = append(m[keys[i].name], &keys[i])
	}
	return m
}()

// allowed lists the rows that may stand in a place, in the table's order.
func allowed(where place) []*key {
	var list []*key
	for i := range keys {
		if keys[i].where&where != 0 {
			list = append(list, &keys[i])
		}
	}
	return list
}

// lookup finds name in a place; if it may not stand there, what to say.
func lookup(name string, where place) (k *key, wrong string) {
	family := treePlaces
	if where&loadPlaces != 0 {
		family = loadPlaces
	}
	for _, k := range rows[name] {
		if k.where&where != 0 {
			return k, ""
		}
		if k.where&family != 0 && wrong == "" && k.belongs != "" {
			wrong = fmt.Sprintf("%s %s", name, k.belongs)
		}
	}
	if wrong != "" {
		return nil, wrong
	}
	if where&(redisBlock|tlsBlock) != 0 {
		if key := passwordKey(name); key != "" {
			return nil, fmt.Sprintf("a password does not stand in the file: write %sEnv: NAME, of the environment variable that holds it, or %sFile: PATH", key, key)
		}
		if !wordExp.MatchString(name) { // such as password:secret without a space
			return nil, "a key here is no word: write a space after each colon"
		}
	}
	var names []string
	for _, k := range allowed(where) {
		names = append(names, k.name)
	}
	return nil, fmt.Sprintf("unknown key %.40q%s: allowed here are %s", name, didYouMean(name, names), strings.Join(names, ", "))
}

// passwordKey returns how the key begins that goes for name, if that is for a password.
func passwordKey(name string) string {
	switch plain(name) {
	case "password", "passwd", "pass", "auth", "requirepass":
		return "password"
	case "sentinelpassword", "sentinelpasswd", "sentinelpass", "sentinelauth":
		return "sentinelPassword"
	}
	return ""
}

var wordExp = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

// plain is a key without what people write in different ways.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// didYouMean names the one of list nearest to word, if one is near: within a slip
// for every three letters, or one where either begins with the other.
func didYouMean(word string, list []string) string {
	if len(word) > maxText {
		return ""
	}
	best, least := "", maxText
	word = plain(word)
	for _, s := range list {
		low := strings.ToLower(s)
		d := distance(word, low)
		if min(len(word), len(low)) >= 3 && (strings.HasPrefix(word, low) || strings.HasPrefix(low, word)) {
			d = min(d, 1)
		}
		if d < least && d <= max(1, max(len(word), len(low))/3) && d < len(low) {
			best, least = s, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance counts the slips between two words: a letter added, left out or
// mistaken, or two neighbours swapped (Damerau's, each letter touched once).
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			slip := 1
			if a[i-1] == b[j-1] {
				slip = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+slip)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
