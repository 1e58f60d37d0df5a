package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	checker "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "rewrite golden files and tree.schema.json")

// buildSchema makes the schema of tree files from the table of keys.
//
// Whether a class is a leaf or has children decides which keys it may have; the
// schema tells by whether children is there, as the reader does.
func buildSchema() *jsonschema.Schema {
	s := mappingSchema(treeTop)
	s.Version = jsonschema.Version
	s.ID = "https://github.com/go-sluice/sluice/config/tree.schema.json"
	s.Title = "Sluice tree"
	s.Description = "A tree of classes that share one capacity: hierarchical token buckets with borrowing."
	s.Definitions = jsonschema.Definitions{
		"redis":        mappingSchema(redisBlock),
		"tls":          mappingSchema(tlsBlock),
		"limit":        mappingSchema(limitEntry),
		"rate":         {Type: "string", Pattern: rateForm, Examples: []any{"1000/s", "5000/h", "17/30s", "10MB/s", "8mbit"}},
		"size":         number(sizeForm),
		"count":        number(countForm),
		"duration":     {Type: "string", Pattern: durationForm, Examples: []any{"100ms", "5s"}},
		"rootLeaf":     mappingSchema(rootLeaf),
		"rootInner":    mappingSchema(rootInner),
		"leaf":         mappingSchema(plainLeaf),
		"inner":        mappingSchema(plainInner),
		"templateLeaf": mappingSchema(templateLeaf), "templateInner": mappingSchema(templateInner),
		"root":     either("rootInner", "rootLeaf"),
		"class":    either("inner", "leaf"),
		"template": either("templateInner", "templateLeaf"),
	}
	children := &jsonschema.Schema{
		Type: "object", MinProperties: new(uint64(1)), Properties: jsonschema.NewProperties(),
		AdditionalProperties: ref("class"),
		PropertyNames:        &jsonschema.Schema{MinLength: new(uint64(1)), MaxLength: new(uint64(maxName))},
	}
	children.Properties.Set("*", ref("template"))
	s.Definitions["children"] = children
	return s
}

// either is the schema of a class that may or may not have children.
func either(inner, leaf string) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		If:   &jsonschema.Schema{Required: []string{"children"}},
		Then: ref(inner),
		Else: ref(leaf),
	}
}

// mappingSchema is the schema of a mapping: the keys that may stand at where.
func mappingSchema(where place) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, k := range allowed(where) {
		v := valueSchema(k)
		v.Description = k.doc
		s.Properties.Set(k.name, v)
		// A class without a rate is htb's to refuse; the table leaves it out for that.
		if k.need || where&everyClass != 0 && k.name == "rate" || where&inners != 0 && k.name == "children" {
			s.Required = append(s.Required, k.name)
		}
	}
	return s
}

func valueSchema(k *key) *jsonschema.Schema {
	switch k.kind {
	case kindText:
		return &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(maxName))}
	case kindChoice:
		s := &jsonschema.Schema{Type: "string", Default: k.choices[0]}
		for _, c := range k.choices {
			s.Enum = append(s.Enum, c)
		}
		return s
	case kindFlag:
		return &jsonschema.Schema{Type: "boolean", Default: false}
	case kindRate:
		return ref("rate")
	case kindSize:
		return ref("size")
	case kindCount:
		return ref("count")
	case kindPrio:
		return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "7", Default: 0}
	case kindInterval, kindMoment:
		return ref("duration")
	case kindLimits:
		return &jsonschema.Schema{Type: "array", MinItems: new(uint64(1)), Items: &jsonschema.Schema{OneOf: []*jsonschema.Schema{ref("rate"), ref("limit")}}}
	case kindClasses:
		return ref("children")
	case kindClass:
		return ref("root")
	case kindAddrs:
		one := &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(maxPath))}
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", MinItems: new(uint64(1)), Items: one}}}
	case kindHidden:
		return &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(maxPath))}
	case kindVariable:
		return &jsonschema.Schema{Type: "string", Pattern: variableForm}
	case kindDatabase:
		return &jsonschema.Schema{Type: "integer", Minimum: "0", Default: 0}
	case kindTLS:
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "boolean", Default: false}, ref("tls")}}
	case kindBlock:
		return ref(k.name)
	}
	panic(fmt.Sprintf("key %s has kind %d, which trees do not have", k.name, k.kind))
}

func number(form string) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer", Minimum: "1"}, {Type: "string", Pattern: form}}}
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

func TestSchemaFile(t *testing.T) {
	want, err := json.MarshalIndent(buildSchema(), "", "  ")
	require.NoError(t, err)
	want = append(want, '\n')
	if *update {
		require.NoError(t, os.WriteFile("tree.schema.json", want, 0o644))
		return
	}
	require.Equal(t, string(want), string(Schema()), "tree.schema.json is not current: go generate ./config")
}

// compiled is the checked-in schema, ready to validate.
func compiled(t *testing.T) *checker.Schema {
	t.Helper()
	doc, err := checker.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := checker.NewCompiler()
	require.NoError(t, c.AddResource("tree.schema.json", doc))
	s, err := c.Compile("tree.schema.json")
	require.NoError(t, err)
	return s
}

// decoded is a file as an editor's schema check sees it: plain values under text keys.
func decoded(t *testing.T, file string) any {
	t.Helper()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(file), &n))
	return plainValue(t, n.Content[0])
}

func plainValue(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plainValue(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, plainValue(t, c))
		}
		return list
	}
	var v any
	require.NoError(t, n.Decode(&v))
	return v
}

// classes writes a file around the classes below the root; global writes one
// around the root.
func classes(lines string) string {
	return global("{rate: 1000/s, children: {" + lines + "}}")
}

func global(lines string) string { return "tree: api\nglobal: " + lines + "\n" }

const withRedis = "redis: {addr: \"localhost:6379\"}\n"

var goodTrees = map[string]string{
	"example":            string(ExampleTree),
	"root alone":         global("{rate: 1000/s}"),
	"one child":          classes("a: {rate: 1/s}"),
	"all of a leaf":      classes("a: {rate: 10/s, burst: 5, ceil: 20/s, cburst: 6, prio: 7, quantum: 3, also: [50/h], limit: 10, maxWait: 1s, store: memory}"),
	"all of a template":  classes(`"*": {rate: 10/s, burst: 5, max: 10k, idle: 0s, limit: 10, maxWait: 1s, store: memory}`),
	"inner template":     classes(`"*": {rate: 10/s, max: 10, idle: 1m30s, children: {"*": {rate: 1/s}}}`),
	"named and template": classes(`a: {rate: 10/s}, "*": {rate: 1/s}`),
	"all of a root":      global("{rate: 10/s, pool: 5, children: {a: {rate: 1/s}}, oversubscribed: true}"),
	"root as leaf":       global("{rate: 10/s, pool: 5, limit: 3, maxWait: 1m, also: [1000/h]}"),
	"oversubscribed":     classes("a: {rate: 10/s, oversubscribed: true, children: {b: {rate: 8/s}, c: {rate: 8/s}}}"),
	"not oversubscribed": classes("a: {rate: 10/s, oversubscribed: false, children: {b: {rate: 8/s}}}"),
	"limits":             classes("a: {rate: 10/s, also: [5000/h, {rate: 20/s, burst: 40}, {rate: 1/d}]}"),
	"unit":               "unit: tokens\n" + classes("a: {rate: 10/s}"),
	"bytes":              "unit: bytes\n" + global("{rate: 10MB/s, children: {a: {rate: 8mbit, ceil: 64MiBit, burst: 64KiB}}}"),
	"kernel":             "semantics: kernel\n" + classes("a: {rate: 10/s}"),
	"redis unused":       withRedis + classes("a: {rate: 10/s}"),
	"redis":              withRedis + classes("a: {rate: 10/s, store: redis}"),
	"sync":               withRedis + classes("a: {rate: 10/s, sync: 100ms}"),
	"redis in full":      "redis: {addr: /run/redis.sock, timeout: 2.5ms, onOutage: closed}\n" + classes("a: {rate: 10/s, sync: 100ms}"),
	"redis addresses":    "redis: {addr: 'a:1, [::1]:2', cluster: true}\n" + classes("a: {rate: 10/s}"),
	"redis list":         "redis: {addr: ['a:1', 'b:2'], sentinel: mymaster, db: 3, sentinelUser: s, sentinelPasswordFile: /run/s}\n" + classes("a: {rate: 10/s}"),
	"redis of one":       "redis: {addr: ['a:1'], cluster: false, db: 0, tls: false}\n" + classes("a: {rate: 10/s}"),
	"redis with TLS":     "redis: {addr: 'a:1', user: sluice, passwordEnv: _PW1, tls: true}\n" + classes("a: {rate: 10/s}"),
	"redis TLS in full":  "redis: {addr: 'a:1', passwordFile: pw, tls: {ca: ca.pem, cert: c.pem, key: c.key, serverName: redis}}\n" + classes("a: {rate: 10/s}"),
	"fractions":          classes("a: {rate: 2.5/s, burst: 2.0, ceil: 17/3s}"),
	"periods":            classes("a: {rate: 5/min}, b: {rate: 1/day}, c: {rate: 7/week}, d: {rate: 1/year}, e: {rate: 1/1m30s}"),
	"odd names":          classes("1: {rate: 1/s}, true: {rate: 1/s}, a/b: {rate: 1/s}, ü: {rate: 1/s}, null: {rate: 1/s}"),
	"text numbers":       classes(`a: {rate: 10/s, burst: "20", quantum: "1k"}`),
}

// badTrees holds mistakes that both must refuse.
var badTrees = map[string]string{
	"no tree":                 "global: {rate: 1/s}\n",
	"no global":               "tree: api\n",
	"a list":                  "- tree: api\n",
	"a text":                  "tree\n",
	"tree a number":           "tree: 1\nglobal: {rate: 1/s}\n",
	"tree empty":              "tree: ''\nglobal: {rate: 1/s}\n",
	"tree null":               "tree:\nglobal: {rate: 1/s}\n",
	"tree a date":             "tree: 2020-01-01\nglobal: {rate: 1/s}\n",
	"unknown top":             "limits: 5\n" + global("{rate: 1/s}"),
	"rate at top":             "rate: 5/s\n" + global("{rate: 1/s}"),
	"global null":             "tree: api\nglobal:\n",
	"global a rate":           global("1000/s"),
	"global a list":           global("[{rate: 1/s}]"),
	"no rate":                 global("{burst: 1}"),
	"no rate in child":        classes("a: {burst: 1}"),
	"class null":              classes("a: "),
	"class a rate":            classes("a: 5/s"),
	"class a list":            classes("a: [5/s]"),
	"unknown in class":        classes("a: {rate: 1/s, cel: 5/s}"),
	"unit in class":           classes("a: {rate: 1/s, unit: bytes}"),
	"rate a number":           classes("a: {rate: 100}"),
	"rate a fraction":         classes("a: {rate: 1.5}"),
	"rate null":               classes("a: {rate: }"),
	"rate a mapping":          classes("a: {rate: {per: s}}"),
	"rate without period":     classes("a: {rate: 10k}"),
	"rate bad period":         classes("a: {rate: 10/fortnight}"),
	"rate negative":           classes("a: {rate: -1/s}"),
	"rate with exponent":      classes("a: {rate: 1e3/s}"),
	"rate in small b":         "unit: bytes\n" + classes("a: {rate: 1Mb/s}"),
	"ceil a flag":             classes("a: {rate: 1/s, ceil: true}"),
	"burst zero":              classes("a: {rate: 1/s, burst: 0}"),
	"burst negative":          classes("a: {rate: 1/s, burst: -5}"),
	"burst a fraction":        classes("a: {rate: 1/s, burst: 2.5}"),
	"burst a rate":            classes("a: {rate: 1/s, burst: 5/s}"),
	"burst null":              classes("a: {rate: 1/s, burst: ~}"),
	"cburst a list":           classes("a: {rate: 1/s, cburst: [1]}"),
	"prio too high":           classes("a: {rate: 1/s, prio: 8}"),
	"prio negative":           classes("a: {rate: 1/s, prio: -1}"),
	"prio text":               classes(`a: {rate: 1/s, prio: "1"}`),
	"quantum negative":        classes("a: {rate: 1/s, quantum: -1}"),
	"also a rate":             classes("a: {rate: 1/s, also: 5/h}"),
	"also empty":              classes("a: {rate: 1/s, also: []}"),
	"also a number":           classes("a: {rate: 1/s, also: [5]}"),
	"also without rate":       classes("a: {rate: 1/s, also: [{burst: 5}]}"),
	"also unknown":            classes("a: {rate: 1/s, also: [{rate: 5/s, ceil: 6/s}]}"),
	"also null":               classes("a: {rate: 1/s, also: [~]}"),
	"also in an inner class":  classes("a: {rate: 1/s, also: [5/h], children: {b: {rate: 1/s}}}"),
	"limit in an inner class": classes("a: {rate: 1/s, limit: 5, children: {b: {rate: 1/s}}}"),
	"store in an inner class": withRedis + classes("a: {rate: 1/s, store: redis, children: {b: {rate: 1/s}}}"),
	"max in a class":          classes("a: {rate: 1/s, max: 5}"),
	"idle in a class":         classes("a: {rate: 1/s, idle: 5s}"),
	"max in the root":         global("{rate: 1/s, max: 5}"),
	"pool in a class":         classes("a: {rate: 1/s, pool: 5}"),
	"pool zero":               global("{rate: 1/s, pool: 0}"),
	"oversubscribed leaf":     classes("a: {rate: 1/s, oversubscribed: true}"),
	"not oversubscribed leaf": classes("a: {rate: 1/s, oversubscribed: false}"),
	"oversubscribed a number": global("{rate: 1/s, oversubscribed: 1, children: {a: {rate: 1/s}}}"),
	"maxWait a number":        classes("a: {rate: 1/s, maxWait: 5}"),
	"maxWait negative":        classes("a: {rate: 1/s, maxWait: -5s}"),
	"max in bytes":            "unit: bytes\n" + classes(`"*": {rate: 1/s, max: 1kB}`),
	"sync in days":            withRedis + classes("a: {rate: 1/s, sync: 1d}"),
	"store elsewhere":         withRedis + classes("a: {rate: 1/s, store: disk}"),
	"semantics unknown":       "semantics: linux\n" + classes("a: {rate: 1/s}"),
	"children empty":          global("{rate: 1/s, children: {}}"),
	"children null":           global("{rate: 1/s, children: }"),
	"children a list":         global("{rate: 1/s, children: [{rate: 1/s}]}"),
	"child without name":      classes(`"": {rate: 1/s}`),
	"name too long":           classes("? " + strings.Repeat("x", 257) + "\n : {rate: 1/s}"),
	"redis null":              "redis:\n" + global("{rate: 1/s}"),
	"redis a text":            "redis: localhost:6379\n" + global("{rate: 1/s}"),
	"redis without addr":      "redis: {timeout: 5ms}\n" + global("{rate: 1/s}"),
	"redis unknown":           "redis: {addr: 'a:1', dbs: 5}\n" + global("{rate: 1/s}"),
	"redis outage":            "redis: {addr: 'a:1', onOutage: shut}\n" + global("{rate: 1/s}"),
	"redis addr a number":     "redis: {addr: 6379}\n" + global("{rate: 1/s}"),
	"redis no addresses":      "redis: {addr: []}\n" + global("{rate: 1/s}"),
	"redis addr a mapping":    "redis: {addr: {host: a}}\n" + global("{rate: 1/s}"),
	"redis addr of numbers":   "redis: {addr: [6379]}\n" + global("{rate: 1/s}"),
	"redis cluster a text":    "redis: {addr: 'a:1', cluster: 'yes'}\n" + global("{rate: 1/s}"),
	"redis db negative":       "redis: {addr: 'a:1', db: -1}\n" + global("{rate: 1/s}"),
	"redis db a text":         "redis: {addr: 'a:1', db: '1'}\n" + global("{rate: 1/s}"),
	"redis password":          "redis: {addr: 'a:1', password: secret}\n" + global("{rate: 1/s}"),
	"redis passwordEnv":       "redis: {addr: 'a:1', passwordEnv: a-b}\n" + global("{rate: 1/s}"),
	"redis passwordFile":      "redis: {addr: 'a:1', passwordFile: 5}\n" + global("{rate: 1/s}"),
	"redis tls a text":        "redis: {addr: 'a:1', tls: 'on'}\n" + global("{rate: 1/s}"),
	"redis tls insecure":      "redis: {addr: 'a:1', tls: {insecure: true}}\n" + global("{rate: 1/s}"),
	"redis tls ca a list":     "redis: {addr: 'a:1', tls: {ca: [a]}}\n" + global("{rate: 1/s}"),
	"timeout a number":        "redis: {addr: 'a:1', timeout: 5}\n" + global("{rate: 1/s}"),
}

// unseen holds mistakes that no schema can see: it must take them, or an editor
// would disagree with the reader elsewhere, too.
var unseen = map[string]string{
	"ceil below rate":       classes("a: {rate: 5/s, ceil: 4/s}"),
	"ceil above parent":     classes("a: {rate: 5/s, ceil: 4000/s}"),
	"rates above parent":    classes("a: {rate: 600/s}, b: {rate: 600/s}"),
	"burst not covering":    global("{rate: 10/s, burst: 5, children: {a: {rate: 1/s, burst: 20}}}"),
	"cburst below burst":    classes("a: {rate: 5/s, burst: 20, cburst: 10}"),
	"bytes without unit":    classes("a: {rate: 8mbit}"),
	"size without unit":     classes("a: {rate: 8/s, burst: 1kB}"),
	"rate zero":             classes("a: {rate: 0/s}"),
	"rate too high":         global("{rate: 1001G/s}"),
	"rate too low":          classes("a: {rate: 0.5/year}"),
	"size half":             classes("a: {rate: 1/s, burst: '2.5'}"),
	"size zero":             classes("a: {rate: 1/s, burst: '0'}"),
	"sync zero":             withRedis + classes("a: {rate: 1/s, sync: 0s}"),
	"sync without redis":    classes("a: {rate: 1/s, sync: 1s}"),
	"store without redis":   classes("a: {rate: 1/s, store: redis}"),
	"addr without port":     "redis: {addr: localhost}\n" + classes("a: {rate: 1/s}"),
	"addr a URL":            "redis: {addr: 'redis://a:1'}\n" + classes("a: {rate: 1/s}"),
	"addrs of nothing":      "redis: {addr: ['a:1', 'b:2']}\n" + classes("a: {rate: 1/s}"),
	"cluster and sentinel":  "redis: {addr: 'a:1', cluster: true, sentinel: m}\n" + classes("a: {rate: 1/s}"),
	"db of a cluster":       "redis: {addr: 'a:1', cluster: true, db: 1}\n" + classes("a: {rate: 1/s}"),
	"two passwords":         "redis: {addr: 'a:1', passwordEnv: A, passwordFile: b}\n" + classes("a: {rate: 1/s}"),
	"cert without key":      "redis: {addr: 'a:1', tls: {cert: a}}\n" + classes("a: {rate: 1/s}"),
	"sync too short":        withRedis + classes("a: {rate: 1/s, sync: 9.9ms}"),
	"sync too long":         withRedis + classes("a: {rate: 1/s, sync: 61s}"),
	"store and sync":        withRedis + classes("a: {rate: 1/s, store: redis, sync: 1s}"),
	"too deep":              classes("a: {rate: 1/s, children: {b: {rate: 1/s, children: {c: {rate: 1/s, children: {d: {rate: 1/s, children: {e: {rate: 1/s, children: {f: {rate: 1/s, children: {g: {rate: 1/s, children: {h: {rate: 1/s}}}}}}}}}}}}}}}"),
	"a child called global": classes("global: {rate: 1/s}"),
	"duration too long":     classes("a: {rate: 1/s, maxWait: 9999999h}"),
	"hexadecimal burst":     classes("a: {rate: 1/s, burst: 0x10}"),
	"rates far apart":       classes("a: {rate: 1/year}, b: {rate: 999999999999/1000003ms}"),
	"anchor":                classes("a: &a {rate: 1/s}"),
}

func TestSchemaAndReaderAgree(t *testing.T) {
	require.GreaterOrEqual(t, len(goodTrees), 20)
	require.GreaterOrEqual(t, len(badTrees), 30)
	s := compiled(t)
	for name, file := range goodTrees {
		_, err := Parse("tree.yaml", []byte(file))
		require.NoError(t, err, "%s: the reader refuses\n%s", name, file)
		require.NoError(t, s.Validate(decoded(t, file)), "%s: the schema refuses\n%s", name, file)
	}
	for name, file := range badTrees {
		_, err := Parse("tree.yaml", []byte(file))
		require.Error(t, err, "%s: the reader takes\n%s", name, file)
		require.Error(t, s.Validate(decoded(t, file)), "%s: the schema takes\n%s", name, file)
	}
	for name, file := range unseen {
		_, err := Parse("tree.yaml", []byte(file))
		require.Error(t, err, "%s: the reader takes\n%s", name, file)
		require.NoError(t, s.Validate(decoded(t, file)), "%s: the schema refuses\n%s", name, file)
	}
}

// Every key of the table is explained, and an example of it can be read.
func TestKeys(t *testing.T) {
	for _, k := range keys {
		require.NotEmpty(t, k.doc, k.name)
		require.True(t, strings.HasPrefix(k.example, k.name+": "), "%s: %s", k.name, k.example)
		var v map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(k.example), &v), k.name)
		if k.where&treePlaces == 0 || k.where&limitEntry != 0 {
			continue
		}
		require.NotEmpty(t, k.belongs, k.name)
		got, _ := lookup(k.name, k.where)
		require.Same(t, got, &keys[indexOf(k)], k.name)
	}
}

func indexOf(k key) int {
	for i := range keys {
		if keys[i].name == k.name && keys[i].where == k.where {
			return i
		}
	}
	return -1
}
