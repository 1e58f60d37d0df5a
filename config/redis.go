package config

import (
	"errors"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Redis is the server, or the servers, that classes with store: redis or sync share. It
// never holds a password, only where one is found, so it may be printed and logged.
type Redis struct {
	Addrs    []string      // host:port of each, or the path of the one's Unix socket
	Timeout  time.Duration // of a call; 5 ms when the file does not say
	OnOutage string        // "local", "closed" or "open"

	Cluster  bool   // Addrs are nodes of a Redis Cluster
	Sentinel string // Addrs are Sentinels, and this is the name of the master they watch; or ""
	DB       int

	User                                      string // of the ACL; "" for the default one
	PasswordEnv, PasswordFile                 string // where the password is; at most one is not ""
	SentinelUser                              string // likewise, of the Sentinels
	SentinelPasswordEnv, SentinelPasswordFile string

	TLS TLS
}

// TLS says how to talk to servers over TLS. The zero TLS is not to.
type TLS struct {
	On         bool
	CA         string // file of certificates to trust, in PEM; "" for the system's
	Cert, Key  string // files of the client's own certificate and its key; both or neither
	ServerName string // what the server's certificate must be for; "" for the host in addr
}

// DefaultTimeout is how long a call to Redis may take unless the file says otherwise:
// fifty times a trip inside a data centre.
const DefaultTimeout = 5 * time.Millisecond

// redis reads the redis: block, nil when there is none. What may hold a password by
// mistake is not shown in any message.
func (m *mapping) redis() *Redis {
	f := m.get("redis")
	if f == nil {
		return nil
	}
	if f.node.Kind == yaml.ScalarNode && f.node.Tag != "!!null" && !odd(f.node) { // perhaps a URL
		m.wrong(f, "is a text where keys are due: write such as %s", f.key.example)
		return nil
	}
	b, _ := m.mapping(f.node, part{m.at, "redis"}, f.line, redisBlock, f.key.example)
	r := &Redis{
		Addrs: b.addrs(), Timeout: b.interval("timeout"), OnOutage: b.choice("onOutage"),
		Cluster: b.flag("cluster"), Sentinel: b.text("sentinel"), DB: b.database("db"),
		User: b.text("user"), PasswordEnv: b.variable("passwordEnv"), PasswordFile: b.hidden("passwordFile"),
		SentinelUser: b.text("sentinelUser"), SentinelPasswordEnv: b.variable("sentinelPasswordEnv"), SentinelPasswordFile: b.hidden("sentinelPasswordFile"),
		TLS: b.tls(m.at),
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	b.together(r)
	return r
}

// together reports keys that contradict each other.
func (m *mapping) together(r *Redis) {
	wrong := func(name, format string, args ...any) {
		if f := m.get(name); f != nil && !f.bad {
			m.wrong(f, format, args...)
		}
	}
	socket := slices.ContainsFunc(r.Addrs, isSocket)
	single := !r.Cluster && !m.has("sentinel") && !m.failed("cluster")
	switch {
	case socket && len(r.Addrs) > 1:
		wrong("addr", "lists a Unix socket beside others: write its path alone, or host:port of each")
	case socket && !single:
		wrong("addr", "is a Unix socket, and nodes of a cluster and Sentinels have none: write their host:port")
	case len(r.Addrs) > 1 && single:
		wrong("addr", "lists several servers: write cluster: true or sentinel: NAME beside it, whichever they are, or keep one of them")
	}
	if r.Cluster {
		wrong("sentinel", "and cluster: true are two ways to find the servers: take one of them out")
		if r.DB != 0 {
			wrong("db", "%d is not in a cluster, which has database 0 only: take it out", r.DB)
		}
	}
	if socket && r.TLS.On {
		wrong("tls", "is not spoken on a Unix socket: take it out")
	}
	for _, of := range [...]struct{ user, env, file string }{{"user", "passwordEnv", "passwordFile"}, {"sentinelUser", "sentinelPasswordEnv", "sentinelPasswordFile"}} {
		if of.user == "sentinelUser" && !m.has("sentinel") {
			for _, name := range [...]string{of.user, of.env, of.file} {
				wrong(name, "is for Sentinels: write sentinel: NAME beside it, the name of the master they watch, or take it out")
			}
			continue
		}
		if m.has(of.env) {
			wrong(of.file, "and %s both say where the password is: take one of them out", of.env)
		} else if !m.has(of.file) && !m.password {
			wrong(of.user, "has no password: write %s: NAME or %s: PATH beside it", of.env, of.file)
		}
	}
}

// At returns r with one server, at addr: a host:port or the path of a Unix socket, from
// the root on. How r finds several is left out, and TLS on a socket; r may be nil. The
// error does not show what may be a password.
func (r *Redis) At(addr string) (*Redis, error) {
	if wrong := addrMistake(addr); wrong != "" {
		return nil, errors.New(wrong)
	}
	out := Redis{Timeout: DefaultTimeout}
	if r != nil {
		out = *r
	}
	out.Addrs, out.Cluster, out.Sentinel = []string{addr}, false, ""
	out.SentinelUser, out.SentinelPasswordEnv, out.SentinelPasswordFile = "", "", ""
	if isSocket(addr) {
		out.TLS = TLS{}
	}
	return &out, nil
}

func isSocket(addr string) bool { return strings.HasPrefix(addr, "/") }

// addrs reads addr: a text, with commas between several, or a list of texts.
func (m *mapping) addrs() []string {
	f := m.get("addr")
	if f == nil || odd(f.node) {
		return nil
	}
	var list []string
	if f.node.Kind == yaml.SequenceNode {
		for _, n := range f.node.Content {
			switch {
			case odd(n):
				f.bad = true
				return nil
			case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
				m.wrong(f, `lists what is no text: write such as ["redis-1:6379", "redis-2:6379"]`)
				return nil
			}
			list = append(list, n.Value)
		}
	} else {
		s := m.hidden("addr")
		if f.bad {
			return nil
		}
		for s := range strings.SplitSeq(s, ",") {
			list = append(list, strings.TrimSpace(s))
		}
	}
	if len(list) == 0 {
		m.wrong(f, "is an empty list: write such as %s", f.key.example)
	}
	for _, addr := range list {
		if wrong := addrMistake(addr); wrong != "" {
			m.wrong(f, "%s", wrong)
			return nil
		}
	}
	return list
}

// addrMistake says what is wrong with an address, "" if nothing is. Only what is no more
// than a name is shown.
func addrMistake(addr string) string {
	switch host, port, err := net.SplitHostPort(addr); {
	case len(addr) > maxName:
		return "has " + strconv.Itoa(len(addr)) + " bytes, the most is " + strconv.Itoa(maxName)
	case strings.Contains(addr, "://"):
		return "is a URL: write host:port (or the path of a Unix socket) alone and, for what else the URL says, db, user, passwordEnv or tls: true beside it"
	case isSocket(addr):
		return ""
	case strings.Contains(addr, "@"):
		return "holds a user or a password: write host:port alone, and user and passwordEnv beside it"
	case addr == "":
		return `is empty, or one of its entries is: write such as "localhost:6379"`
	case !strings.Contains(addr, ":"):
		return strconv.Quote(addr) + " has no port: write such as " + addr + ":6379"
	case err != nil && strings.Count(addr, ":") > 1:
		return "has too many colons: write host:port, and an IPv6 address in brackets, such as [::1]:6379"
	case err != nil || strings.ContainsAny(host, " \t/"):
		return "is no host:port: write such as localhost:6379"
	default:
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has a port that is no number from 1 to 65535: write such as localhost:6379"
		}
	}
	return ""
}

// tls reads tls: a flag, or a mapping. above is what the redis: block stands in.
func (m *mapping) tls(above spot) TLS {
	f := m.get("tls")
	if f == nil || odd(f.node) {
		return TLS{}
	}
	if f.node.Kind != yaml.MappingNode {
		if f.node.Tag != "!!bool" {
			m.wrong(f, "is neither true nor a block: write tls: true, or such as %s", f.key.example)
			return TLS{}
		}
		return TLS{On: m.flag("tls")}
	}
	b, _ := m.mapping(f.node, part{above, "redis: tls"}, f.line, tlsBlock, f.key.example)
	t := TLS{On: true, CA: b.hidden("ca"), Cert: b.hidden("cert"), Key: b.hidden("key"), ServerName: b.text("serverName")}
	for _, pair := range [...][2]string{{"cert", "key"}, {"key", "cert"}} {
		if b.has(pair[0]) && !b.has(pair[1]) {
			b.wrong(b.get(pair[0]), "has no %s: write %s: FILE beside it", pair[1], pair[1])
		}
	}
	return t
}

// hidden is text for what is not shown in messages, since it may hold a password by mistake.
func (m *mapping) hidden(name string) string {
	f, s, ok := m.scalar(name)
	switch {
	case !ok:
		return ""
	case f.node.Tag != "!!str":
		m.wrong(f, "is not text in YAML: write it in quotes")
	case s == "":
		m.wrong(f, "is empty: write such as %s", f.key.example)
	case len(s) > maxPath:
		m.wrong(f, "has %d bytes, the most is %d", len(s), maxPath)
	default:
		return s
	}
	return ""
}

// maxPath is the longest text that hidden reads: a path, or a list of addresses.
const maxPath = 4096

var variableExp = regexp.MustCompile(variableForm)

const variableForm = `^[A-Za-z_][A-Za-z0-9_]*$`

// variable reads the name of an environment variable.
func (m *mapping) variable(name string) string {
	s := m.hidden(name)
	if s != "" && !variableExp.MatchString(s) {
		m.wrong(m.get(name), "is no name of an environment variable: write the name, not the password, such as %s", m.get(name).key.example)
		return ""
	}
	return s
}

// database reads the number of a database, 0 or more.
func (m *mapping) database(name string) int {
	f, s, ok := m.scalar(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || f.node.Tag != "!!int" {
		m.wrong(f, "%.40q is no whole number of 0 or more: write such as %s", s, f.key.example)
		return 0
	}
	return int(n)
}
