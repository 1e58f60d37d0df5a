// Package config reads the two files people write for Sluice: a tree of classes
// (tree.yaml) and a load to drive it with (load.yaml).
//
// Both readers are strict, because a limit that is silently not applied is worse
// than a program that does not start: an unknown key, a key in the wrong place, a
// number without its unit are mistakes, and so are YAML's anchors, aliases, merge
// keys and tags, which hide from the reader of a file what holds where. All
// mistakes of a file are reported at once, each an [*Error] with the file, the
// line, the class and what to write instead.
//
// # What is checked where
//
// Whether a tree makes sense (ceil not below rate, children within their parent,
// bursts that cover) is htb's to say; see [htb.Spec.Check]. This package finds
// the line for what htb says, and checks what htb never sees: the form of the
// file. A value that could not be read gives one mistake, and no second one for
// what follows from it.
//
// One table (keys.go) says of every key where it may stand and what it holds. The
// readers, the lists of allowed keys in messages and the JSON Schema for editors
// (see [Schema]) are made from it, so they cannot disagree.
//
// # Redis
//
// Classes with store: redis or sync share the servers of the redis: block, which for one
// server on the same machine is no more than an address:
//
//	redis: {addr: "localhost:6379"} # or the path of a Unix socket
//
// A cluster, and a master that Sentinels watch, are found through several addresses, as
// a list or with commas between:
//
//	redis: {addr: ["redis-1:6379", "redis-2:6379"], cluster: true}
//
//	redis:
//	  addr: sentinel-1:26379, sentinel-2:26379, sentinel-3:26379
//	  sentinel: mymaster
//	  db: 3
//	  user: sluice                  # of the server's ACL
//	  passwordEnv: REDIS_PASSWORD   # or passwordFile: /run/secrets/redis
//	  tls: {ca: /etc/ssl/redis-ca.pem}
//	  timeout: 10ms
//	  onOutage: closed
//
// A file says where a password is found, never the password: files are committed,
// printed and sent around. Environment variables and files are read when the client is
// made, paths from the working folder on. Certificates of servers are always checked;
// tls: true checks them against those that the system trusts. No message shows what
// stands where a password may have been written by mistake, nor what a URL holds.
//
// timeout is for one call. What it takes to connect is not counted in it: a connection
// is made beside the calls that wait for one.
//
// # Rates
//
// Rates are exact fractions from the text to the bucket: "2.5/s" is 5 in 2 s and
// "1/year" is one in 365 days; no float is involved. See [ParseRate].
package config
