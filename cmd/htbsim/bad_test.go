package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodTree = `tree: api
global:
  rate: 100/s
  children:
    acme: {rate: 60/s, ceil: 100/s}
    free:
      rate: 20/s
      ceil: 50/s
      children:
        "*": {rate: 1/s, ceil: 10/s, burst: 5}
`

// plainTree has no template that could take in unknown classes.
const plainTree = `tree: api
global:
  rate: 100/s
  children:
    acme: {rate: 60/s, ceil: 100/s}
    beta: {rate: 40/s}
`

// goodSharedTree is of gateways; nothing listens where it says.
const goodSharedTree = `tree: api
redis: {addr: "127.0.0.1:1"}
global:
  rate: 100/s
  sync: 100ms
  children:
    acme: {rate: 60/s, ceil: 100/s, sync: 100ms}
    free:
      rate: 20/s
      ceil: 50/s
      sync: 100ms
      children:
        "*": {rate: 1/s, ceil: 10/s, burst: 5, store: redis}
`

const goodLoad = `duration: 3s
flows:
  - {class: acme, arrivals: constant, rate: 20/s}
  - {class: "free/*", clients: 3, arrivals: poisson, rate: 30/s}
`

const goodLog = `192.0.2.1 - ann [17/May/2015:10:05:03 +0000] "GET /a/x HTTP/1.1" 200 512
192.0.2.2 - - [17/May/2015:10:05:04 +0000] "GET /b/y HTTP/1.1" 200 99
`

const goodTrace = "time,class,cost\n0,acme,1\n0.5,acme,2\n1.25,beta,3\n"

// broken is an input with a mistake, or more than one.
type broken struct {
	name  string
	args  string // "OUT" stands for outputs that must not be touched
	files map[string]string
	code  int
}

func brokenTree(name, tree string) broken {
	return broken{name, "run --tree tree.yaml --load load.yaml OUT", map[string]string{"tree.yaml": tree}, exitInput}
}

func brokenLoad(name, load string) broken {
	return broken{name, "run --tree tree.yaml --load load.yaml OUT", map[string]string{"load.yaml": load}, exitInput}
}

func brokenTrace(name, file, data string) broken {
	return broken{name, "run --tree plain.yaml --trace " + file + " OUT", map[string]string{file: data}, exitInput}
}

func wrongUse(name, args string) broken { return broken{name, args, nil, exitUsage} }

func wrongFile(name, args string) broken { return broken{name, args, nil, exitInput} }

var brokenInputs = []broken{
	brokenTree("tree-unknown-key", strings.Replace(goodTree, "burst: 5", "bursts: 5", 1)),
	brokenTree("tree-ceil-below-rate", strings.Replace(goodTree, "rate: 60/s, ceil: 100/s", "rate: 60/s, ceil: 50/s", 1)),
	brokenTree("tree-children-above-parent", strings.Replace(goodTree, "rate: 60/s", "rate: 90/s", 1)),
	brokenTree("tree-several", strings.NewReplacer("rate: 60/s", "rate: 90/s", "20/s", "twenty", "burst: 5", "prio: 9").Replace(goodTree)),
	brokenTree("tree-syntax", "tree: api\nglobal:\n  rate: 100/s\n  children: [acme\n"),
	brokenTree("tree-empty", ""),
	brokenTree("tree-is-a-load", goodLoad),
	{"tree-check", "check --tree tree.yaml", map[string]string{"tree.yaml": strings.Replace(goodTree, "ceil: 100/s", "ceiling: 100/s", 1)}, exitInput},
	{"tree-kernel", "run --tree tree.yaml --mode police OUT", map[string]string{"tree.yaml": "semantics: kernel\n" + plainTree}, exitInput},
	wrongFile("tree-missing", "run --tree nosuch.yaml OUT"),
	wrongFile("tree-missing-check", "check --tree nosuch.yaml"),
	wrongFile("tree-folder", "run --tree . OUT"),

	brokenLoad("load-unknown-class", strings.Replace(goodLoad, "class: acme", "class: acne", 1)),
	brokenLoad("load-missing-rate", strings.Replace(goodLoad, ", rate: 20/s", "", 1)),
	brokenLoad("load-arrivals", strings.Replace(goodLoad, "poisson", "passion", 1)),
	brokenLoad("load-class-with-children", strings.Replace(goodLoad, "class: acme", "class: free", 1)),
	brokenLoad("load-syntax", "duration: 3s\nflows:\n- {class: acme\n"),
	brokenLoad("load-is-a-trace", goodTrace),
	{"load-beside-unknown-class", "--tree tree.yaml OUT", map[string]string{"load.yaml": strings.Replace(goodLoad, "class: acme", "class: acne", 1)}, exitInput},
	wrongFile("load-missing", "run --tree tree.yaml --load nosuch.yaml OUT"),

	brokenTrace("trace-access-log-line", "access.log", goodLog+"192.0.2.3 - - [17/May/2015:10:05:05] \"GET / HTTP/1.1\" 200 1\n"),
	brokenTrace("trace-csv-header", "t.csv", "time,klass,cost\n0,acme,1\n"),
	brokenTrace("trace-cost", "t.csv", goodTrace+"2,acme,-3\n2.5,acme,many\n"),
	brokenTrace("trace-time", "t.csv", goodTrace+"late,acme,3\n"),
	brokenTrace("trace-unknown-class", "t.csv", goodTrace+"2,acne,1\n3,acne,1\n4,acme/x,1\n"),
	brokenTrace("trace-clients-without-template", "access.log", goodLog),
	brokenTrace("trace-empty", "t.csv", ""),
	brokenTrace("trace-header-only", "t.csv", "time,class,cost\n"),
	brokenTrace("trace-truncated-gzip", "t.csv.gz", truncated(goodTrace)),
	brokenTrace("trace-is-a-tree", "t.yaml", goodTree),
	wrongFile("trace-missing", "run --tree tree.yaml --trace nosuch.csv OUT"),
	wrongFile("trace-folder", "run --tree tree.yaml --trace . OUT"),
	wrongFile("trace-map-unknown", "run --tree plain.yaml --trace trace.csv --map nosuch OUT"),
	wrongFile("trace-map-leaf", "run --tree plain.yaml --trace trace.csv --map acme OUT"),

	wrongUse("flags-load-and-trace", "run --tree tree.yaml --load load.yaml --trace trace.csv OUT"),
	wrongUse("flags-mode", "run --tree tree.yaml --load load.yaml --mode polite OUT"),
	wrongUse("flags-plot-ending", "run --tree tree.yaml --load load.yaml --plot out.jpg"),
	wrongUse("flags-unknown", "run --tree tree.yaml --loud load.yaml"),
	wrongUse("flags-one-dash", "run -tree tree.yaml"),
	wrongUse("flags-class-without-trace", "run --tree tree.yaml --load load.yaml --class user OUT"),
	wrongUse("flags-class", "run --tree tree.yaml --trace access.log --class agent OUT"),
	wrongUse("flags-cost", "run --tree tree.yaml --trace access.log --cost byte OUT"),
	wrongUse("flags-step-0", "run --tree tree.yaml --load load.yaml --step 0 OUT"),
	wrongUse("flags-step-unit", "run --tree tree.yaml --load load.yaml --step 5 OUT"),
	wrongUse("flags-step-short", "run --tree tree.yaml --load load.yaml --step 1us OUT"),
	wrongUse("flags-top", "run --tree tree.yaml --load load.yaml --top -1 OUT"),
	wrongUse("flags-seed", "run --tree tree.yaml --load load.yaml --seed -1 OUT"),
	wrongUse("flags-no-value", "run --tree tree.yaml --load"),
	wrongUse("flags-empty-value", "run --tree tree.yaml --trace= OUT"),
	wrongUse("flags-map", "run --tree tree.yaml --trace trace.csv --map a//b OUT"),
	wrongUse("flags-no-traffic", "run --tree other/tree.yaml OUT"),
	wrongUse("command-unknown", "replay"),
	wrongUse("command-misspelt", "chekc"),
	wrongUse("argument-tree", "tree.yaml"),
	wrongUse("argument-tree-run", "run tree.yaml"),
	wrongUse("argument-tree-check", "check tree.yaml"),
	wrongUse("argument-trace", "run --tree tree.yaml access.log.gz"),
	wrongUse("argument-other", "run --tree tree.yaml now"),

	wrongUse("redis-trace", "run --tree shared.yaml --trace trace.csv --redis localhost:1 OUT"),
	wrongUse("redis-shape", "run --tree shared.yaml --load load.yaml --redis localhost:1 --mode shape OUT"),
	wrongUse("redis-no-load", "run --tree shared.yaml --redis localhost:1 OUT"),
	wrongUse("redis-url", "run --tree shared.yaml --load load.yaml --redis redis://:hunter2@localhost:1 OUT"),
	wrongUse("redis-password", "run --tree shared.yaml --load load.yaml --redis hunter2@localhost:1 OUT"),
	wrongUse("redis-no-port", "run --tree shared.yaml --load load.yaml --redis localhost OUT"),
	wrongUse("redis-empty", "run --tree shared.yaml --load load.yaml --redis= OUT"),
	wrongUse("redis-gateways-alone", "run --tree shared.yaml --load load.yaml --gateways 4 OUT"),
	wrongUse("redis-skew-alone", "run --tree shared.yaml --load load.yaml --skew 5,1 OUT"),
	wrongUse("redis-gateways-0", "run --tree shared.yaml --load load.yaml --redis file --gateways 0 OUT"),
	wrongUse("redis-gateways-many", "run --tree shared.yaml --load load.yaml --redis file --gateways 65 OUT"),
	wrongUse("redis-gateways-word", "run --tree shared.yaml --load load.yaml --redis file --gateways four OUT"),
	wrongUse("redis-skew-few", "run --tree shared.yaml --load load.yaml --redis file --gateways 4 --skew 5,1 OUT"),
	wrongUse("redis-skew-word", "run --tree shared.yaml --load load.yaml --redis file --gateways 2 --skew 5:1 OUT"),
	wrongUse("redis-skew-negative", "run --tree shared.yaml --load load.yaml --redis file --gateways 2 --skew 5,-1 OUT"),
	wrongUse("redis-skew-0", "run --tree shared.yaml --load load.yaml --redis file --gateways 2 --skew 0,0 OUT"),
	wrongUse("redis-step-short", "run --tree shared.yaml --load load.yaml --redis file --step 1us OUT"),
	wrongFile("redis-not-there", "run --tree shared.yaml --load load.yaml --redis 127.0.0.1:1 OUT"),
	wrongFile("redis-not-there-file", "run --tree shared.yaml --load load.yaml --redis file --gateways 2 OUT"),
	wrongFile("redis-no-socket", "run --tree shared.yaml --load load.yaml --redis /nonexistent/redis.sock OUT"),
	wrongFile("redis-no-block", "run --tree tree.yaml --load load.yaml --redis file OUT"),
	wrongFile("redis-load-missing", "run --tree shared.yaml --load nosuch.yaml --redis file OUT"),
	{"redis-kernel", "run --tree tree.yaml --load load.yaml --redis file OUT", map[string]string{"tree.yaml": "semantics: kernel\n" + plainTree}, exitInput},
	{"redis-no-password", "run --tree tree.yaml --load load.yaml --redis localhost:1 OUT",
		map[string]string{"tree.yaml": strings.Replace(goodSharedTree, `:1"}`, `:1", passwordEnv: HTBSIM_TEST_NO_SUCH}`, 1)}, exitInput},

	wrongUse("compare-no-rate", "compare --load load.yaml OUT"),
	wrongUse("compare-no-rate-trace", "compare --trace trace.csv OUT"),
	wrongUse("compare-rate", "compare --load load.yaml --rate 100 OUT"),
	wrongUse("compare-rate-bytes", "compare --trace access.log --rate 1MB/s OUT"),
	wrongUse("compare-peak", "compare --peak fast OUT"),
	wrongUse("compare-peak-missing", "compare --rate 1000G/s OUT"),
	wrongUse("compare-burst", "compare --burst 0 OUT"),
	wrongUse("compare-queue", "compare --queue 0 OUT"),
	wrongUse("compare-step", "compare --step 0 OUT"),
	wrongUse("compare-step-short", "compare --step 1us OUT"),
	wrongUse("compare-algorithms", "compare --algorithms gcra,token OUT"),
	wrongUse("compare-algorithms-twice", "compare --algorithms gcra,gcra OUT"),
	wrongUse("compare-algorithms-none", "compare --algorithms= OUT"),
	wrongUse("compare-load-and-trace", "compare --load load.yaml --trace trace.csv --rate 1/s OUT"),
	wrongUse("compare-cost-without-trace", "compare --cost bytes OUT"),
	wrongUse("compare-plot-ending", "compare --plot out.jpg"),
	wrongUse("compare-argument", "compare load.yaml"),
	wrongFile("compare-no-load", "compare --load nosuch.yaml --rate 1/s OUT"),
	wrongFile("compare-no-trace", "compare --trace nosuch.csv --rate 1/s OUT"),
	wrongUse("compare-output-is-the-trace", "compare --trace trace.csv --rate 1/s --csv trace.csv"),
	{"compare-backlogged", "compare --load load.yaml --rate 1/s OUT", map[string]string{"load.yaml": goodLoad + "  - {class: acme, arrivals: backlogged}\n"}, exitInput},

	wrongUse("plan-no-trace", "plan --out old.json"),
	wrongUse("plan-refuse", "plan --trace trace.csv --refuse 1 --out old.json"),
	wrongUse("plan-refuse-all", "plan --trace trace.csv --refuse 100% --out old.json"),
	wrongUse("plan-growth", "plan --trace trace.csv --growth 0 --out old.json"),
	wrongUse("plan-saved", "plan --trace trace.csv --saved -1s --out old.json"),
	wrongUse("plan-few", "plan --trace trace.csv --few -1 --out old.json"),
	wrongUse("plan-argument", "plan access.log"),
	wrongUse("plan-argument-other", "plan now"),
	wrongUse("plan-both-standard", "plan --trace trace.csv --out - --json -"),
	wrongUse("plan-output-is-the-trace", "plan --trace trace.csv --out trace.csv"),
	wrongFile("plan-trace-missing", "plan --trace nosuch.csv --out old.json"),
	{"plan-class-above-class", "plan --trace t.csv --out old.json", map[string]string{"t.csv": goodTrace + "2,acme/x,1\n"}, exitInput},
	{"plan-deep", "plan --trace t.csv --out old.json", map[string]string{"t.csv": "time,class,cost\n0,a/b/c/d/e/f/g/h/i,1\n"}, exitInput},

	wrongFile("output-no-folder", "run --tree tree.yaml --load load.yaml --csv new.csv --json nosuch/out.json"),
	wrongFile("output-is-a-folder", "run --tree tree.yaml --load load.yaml --csv new.csv --json other"),
	wrongUse("output-is-the-tree", "run --tree tree.yaml --load load.yaml --json ./tree.yaml"),
	wrongUse("output-is-the-trace", "run --tree plain.yaml --trace trace.csv --csv trace.csv"),
	wrongUse("output-twice", "run --tree tree.yaml --load load.yaml --json new --csv ./new"),
	wrongUse("output-both-standard", "run --tree tree.yaml --load load.yaml --json - --csv -"),
}

// Every mistake is told on stderr, with an exit code that says whose it is; there
// is no half output, no new file and no changed one.
func TestBrokenInput(t *testing.T) {
	names := map[string]bool{}
	for _, b := range brokenInputs {
		require.False(t, names[b.name], b.name)
		names[b.name] = true
		t.Run(b.name, func(t *testing.T) {
			files := map[string]string{
				"tree.yaml": goodTree, "plain.yaml": plainTree, "shared.yaml": goodSharedTree, "other/tree.yaml": goodTree, "load.yaml": goodLoad,
				"trace.csv": goodTrace, "access.log": goodLog,
				"old.json": "old\n", "old.svg": "old\n",
			}
			maps.Copy(files, b.files)
			folder(t, files)
			args := strings.Fields(strings.Replace(b.args, "OUT", "--json old.json --csv new.csv --plot old.svg", 1))
			o := htbsim(t.Context(), args...)
			require.Equal(t, b.code, o.code, o.stderr)
			require.Empty(t, o.stdout)
			require.NotContains(t, o.stderr, os.TempDir())
			require.Equal(t, files, contents(t))
			golden(t, "bad/"+b.name+".golden", fmt.Sprintf("$ htbsim %s\n%s[exit %d]\n", strings.Replace(b.args, "OUT", "...", 1), o.stderr, o.code))
		})
	}
}

// No golden file is left over from a case that is no more.
func TestGoldenFilesInUse(t *testing.T) {
	entries, err := os.ReadDir("testdata/bad")
	require.NoError(t, err)
	require.Len(t, entries, len(brokenInputs))
}

// truncated returns data as gzip, with the end cut off.
func truncated(data string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(data)) // to a buffer: does not fail
	_ = z.Close()
	return b.String()[:b.Len()-9]
}
