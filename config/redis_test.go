package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every mistake of a redis: block, each on the line of what it is about.
func TestRedisMistakes(t *testing.T) {
	const url = "is a URL: write host:port (or the path of a Unix socket) alone and, for what else the URL says, db, user, passwordEnv or tls: true beside it"
	const noFile = "a password does not stand in the file: write %[1]sEnv: NAME, of the environment variable that holds it, or %[1]sFile: PATH"
	const forSentinels = "is for Sentinels: write sentinel: NAME beside it, the name of the master they watch, or take it out"
	for _, step := range []struct{ block, want string }{
		{"addr: 'redis://:hunter2@a:1/3'", "3 redis: addr " + url},
		{"addr: 'rediss://a:1'", "3 redis: addr " + url},
		{"addr: 'unix:///run/redis.sock'", "3 redis: addr " + url},
		{"addr: 'sluice:hunter2@a:1'", "3 redis: addr holds a user or a password: write host:port alone, and user and passwordEnv beside it"},
		{"addr: 'a:1,'", `3 redis: addr is empty, or one of its entries is: write such as "localhost:6379"`},
		{"addr: redis", `3 redis: addr "redis" has no port: write such as redis:6379`},
		{"addr: '::1:6379'", "3 redis: addr has too many colons: write host:port, and an IPv6 address in brackets, such as [::1]:6379"},
		{"addr: 'a:hunter2'", "3 redis: addr has a port that is no number from 1 to 65535: write such as localhost:6379"},
		{"addr: 'a:0'", "3 redis: addr has a port that is no number from 1 to 65535: write such as localhost:6379"},
		{"addr: 'a b:1'", "3 redis: addr is no host:port: write such as localhost:6379"},
		{"addr: []", `3 redis: addr is an empty list: write such as addr: "localhost:6379"`},
		{"addr: [a:1, {b: 2}]", `3 redis: addr lists what is no text: write such as ["redis-1:6379", "redis-2:6379"]`},
		{"addr: 6379", "3 redis: addr is not text in YAML: write it in quotes"},
		{"addr: [a:1, b:2]", "3 redis: addr lists several servers: write cluster: true or sentinel: NAME beside it, whichever they are, or keep one of them"},
		{"addr: [a:1, /run/redis.sock]", "3 redis: addr lists a Unix socket beside others: write its path alone, or host:port of each"},
		{"addr: /run/redis.sock\n  cluster: true", "3 redis: addr is a Unix socket, and nodes of a cluster and Sentinels have none: write their host:port"},
		{"addr: /run/redis.sock\n  tls: true", "4 redis: tls is not spoken on a Unix socket: take it out"},
		{"addr: a:1\n  cluster: true\n  sentinel: m\n  db: 2", "5 redis: sentinel and cluster: true are two ways to find the servers: take one of them out\n" +
			"6 redis: db 2 is not in a cluster, which has database 0 only: take it out"},
		{"addr: a:1\n  db: one", `4 redis: db "one" is no whole number of 0 or more: write such as db: 1`},
		{"addr: a:1\n  user: u", "4 redis: user has no password: write passwordEnv: NAME or passwordFile: PATH beside it"},
		{"addr: a:1\n  password: hunter2", "4 redis: " + fmt.Sprintf(noFile, "password")},
		{"addr: a:1\n  Pass: hunter2", "4 redis: " + fmt.Sprintf(noFile, "password")},
		{"addr: a:1\n  sentinel_password: hunter2", "4 redis: " + fmt.Sprintf(noFile, "sentinelPassword")},
		{"{addr: 'a:1', password:hunter2}", "3 redis: a key here is no word: write a space after each colon"},
		{"addr: a:1\n  passwordEnv: hunter2!", "4 redis: passwordEnv is no name of an environment variable: write the name, not the password, such as passwordEnv: REDIS_PASSWORD"},
		{"addr: a:1\n  passwordEnv: 12345", "4 redis: passwordEnv is not text in YAML: write it in quotes"},
		{"addr: a:1\n  passwordFile: ''", "4 redis: passwordFile is empty: write such as passwordFile: /run/secrets/redis"},
		{"addr: a:1\n  passwordEnv: A\n  passwordFile: b", "5 redis: passwordFile and passwordEnv both say where the password is: take one of them out"},
		{"addr: a:1\n  sentinelUser: u\n  sentinelPasswordEnv: A\n  sentinelPasswordFile: b", "4 redis: sentinelUser " + forSentinels + "\n5 redis: sentinelPasswordEnv " + forSentinels + "\n6 redis: sentinelPasswordFile " + forSentinels},
		{"addr: a:1\n  sentinel: m\n  sentinelUser: u", "5 redis: sentinelUser has no password: write sentinelPasswordEnv: NAME or sentinelPasswordFile: PATH beside it"},
		{"addr: a:1\n  tls: on", "4 redis: tls is neither true nor a block: write tls: true, or such as tls: {ca: /etc/ssl/redis-ca.pem}"},
		{"addr: a:1\n  tls:\n    insecure: true", `5 redis: tls: unknown key "insecure": allowed here are ca, cert, key, serverName`},
		{"addr: a:1\n  tls:\n    cert: a.pem", "5 redis: tls: cert has no key: write key: FILE beside it"},
		{"addr: a:1\n  tls:\n    key: a.pem", "5 redis: tls: key has no cert: write cert: FILE beside it"},
		{"redis://:hunter2@localhost:6379", `2 redis is a text where keys are due: write such as redis: {addr: "localhost:6379"}`},
		{"addr: a:1\n  password: &hunter2", "4 what begins with & is an anchor, which is not read: write it out, so that each line says what holds there\n4 redis: " + fmt.Sprintf(noFile, "password")},
		{"addr: a:1\n  password: !hunter2 x", "4 what begins with ! is a tag, which is not read: write the plain value\n4 redis: " + fmt.Sprintf(noFile, "password")},
		{"addr: a:1\n  password: *hunter2", `4 what begins with * is an alias in YAML, of nothing: write out what is meant, and a template as "*" in quotes`},
	} {
		_, err := Parse("t", []byte("tree: t\nredis:\n  "+step.block+"\nglobal: {rate: 1/s}\n"))
		var errs Errors
		require.True(t, errors.As(err, &errs), step.block)
		var got []string
		for _, e := range errs {
			require.Empty(t, e.Path)
			got = append(got, fmt.Sprintf("%d %s", e.Line, e.Msg))
		}
		require.Equal(t, step.want, strings.Join(got, "\n"), step.block)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, errs), "hunter2", step.block)
	}
}

// A program that is told an address keeps what else the file says, and nothing of how it
// finds several servers.
func TestRedisAt(t *testing.T) {
	r, err := (*Redis)(nil).At("localhost:6379")
	require.NoError(t, err)
	require.Equal(t, &Redis{Addrs: []string{"localhost:6379"}, Timeout: DefaultTimeout}, r)
	file := &Redis{
		Addrs: []string{"a:1", "b:1"}, Sentinel: "m", SentinelUser: "s", SentinelPasswordEnv: "S", Timeout: time.Second, OnOutage: "open",
		DB: 3, User: "u", PasswordEnv: "P", TLS: TLS{On: true, CA: "ca.pem"},
	}
	before := *file
	r, err = file.At("c:2")
	require.NoError(t, err)
	require.Equal(t, &Redis{Addrs: []string{"c:2"}, Timeout: time.Second, OnOutage: "open", DB: 3, User: "u", PasswordEnv: "P", TLS: TLS{On: true, CA: "ca.pem"}}, r)
	r, err = file.At("/run/redis.sock")
	require.NoError(t, err)
	require.Equal(t, &Redis{Addrs: []string{"/run/redis.sock"}, Timeout: time.Second, OnOutage: "open", DB: 3, User: "u", PasswordEnv: "P"}, r)
	require.Equal(t, before, *file)
	r, err = (&Redis{Cluster: true}).At("c:2")
	require.NoError(t, err)
	require.False(t, r.Cluster, "one server is no cluster")
	for addr, want := range map[string]string{"redis://:hunter2@a:1": "is a URL", "hunter2@a:1": "holds a user or a password", "": "is empty", "a": "has no port", "a:b": "no number"} {
		_, err := file.At(addr)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
