package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-sluice/sluice/internal/redistest"
)

// Pause stops the process: it takes connections and commands and answers at the end.
func Pause(s *redistest.Server) Fault {
	return Fault{
		Name: "pause", Effect: Hangs,
		begin: func(context.Context) error { return s.Pause() },
		end:   func(context.Context) error { return s.Resume() },
	}
}

// Crash kills the process; at the end it is back, empty.
func Crash(s *redistest.Server) Fault {
	return Fault{
		Name: "crash", Effect: Breaks, Loses: true,
		begin: func(context.Context) error { return s.Kill() },
		end:   func(context.Context) error { return s.Start() },
	}
}

// CrashKept kills the process; at the end it is back with all that it ever answered for,
// from an append-only file.
func CrashKept(s *redistest.Server) Fault {
	var dir string
	return Fault{
		Name: "crash, kept", Effect: Breaks,
		begin: func(ctx context.Context) error {
			return errors.Join(with(s, func(c *redis.Client) (err error) {
				if dir, err = setting(ctx, c, "dir"); err != nil {
					return err
				}
				// Written before the answer, which everysec may put off; a kill leaves what the
				// kernel has, so nothing need reach the disk.
				if err := c.ConfigSet(ctx, "appendfsync", "no").Err(); err != nil {
					return err
				}
				if err := c.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
					return err
				}
				return informed(ctx, c, "aof_rewrite_scheduled:0", "aof_rewrite_in_progress:0", "aof_last_bgrewrite_status:ok")
			}), s.Kill())
		},
		end: func(ctx context.Context) error {
			if err := s.Start("--appendonly", "yes"); err != nil {
				return err
			}
			return with(s, func(c *redis.Client) error {
				if err := loaded(ctx, c); err != nil {
					return err
				}
				err := c.ConfigSet(ctx, "appendonly", "no").Err()
				return errors.Join(err, os.RemoveAll(filepath.Join(dir, "appendonlydir")),
					os.RemoveAll(filepath.Join(dir, "appendonly.aof"))) // before Redis 7
			})
		},
	}
}

// FlushAll loses all keys and nothing else.
func FlushAll(s *redistest.Server) Fault {
	return Fault{
		Name: "flushall", Effect: Answers, Loses: true,
		begin: func(ctx context.Context) error {
			return with(s, func(c *redis.Client) error { return c.FlushAll(ctx).Err() })
		},
		end: nothing,
	}
}

// ScriptFlush forgets all scripts. Loading them again ends it, and End does not.
func ScriptFlush(s *redistest.Server) Fault {
	return Fault{
		Name: "script flush", Effect: Errs, Says: "NOSCRIPT",
		begin: func(ctx context.Context) error {
			return with(s, func(c *redis.Client) error { return c.ScriptFlush(ctx).Err() })
		},
		end: nothing,
	}
}

// ReadOnly makes the server the replica of one that is dead: it answers what only reads.
func ReadOnly(s *redistest.Server) Fault {
	return Fault{
		Name: "read-only", Effect: Errs, Says: "READONLY",
		begin: func(ctx context.Context) error {
			return with(s, func(c *redis.Client) error { return c.Do(ctx, "replicaof", "127.0.0.1", "1").Err() })
		},
		end: func(ctx context.Context) error {
			return with(s, func(c *redis.Client) error { return c.Do(ctx, "replicaof", "no", "one").Err() })
		},
	}
}

// OutOfMemory leaves no memory for writes, and evicts nothing.
func OutOfMemory(s *redistest.Server) Fault {
	return settings(s, Fault{Name: "out of memory", Effect: Errs, Says: "OOM"},
		[][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}}, nothing, nothing)
}

// FullDisk lets saving fail, after which a server that is to save takes no writes. It is
// not the disk: a directory has the file's name, which stops a superuser too.
func FullDisk(s *redistest.Server) Fault {
	var dump string
	save := func(ctx context.Context, status string) error {
		return with(s, func(c *redis.Client) error {
			if err := c.BgSave(ctx).Err(); err != nil {
				return err
			}
			return informed(ctx, c, "rdb_bgsave_in_progress:0", "rdb_last_bgsave_status:"+status)
		})
	}
	begin := func(ctx context.Context) (err error) {
		if dump, err = dumpFile(ctx, s); err != nil {
			return err
		}
		if err := os.Mkdir(dump, 0o700); err != nil {
			return err
		}
		return save(ctx, "err")
	}
	end := func(ctx context.Context) error {
		// The file is removed at last: a server that starts would load it.
		return errors.Join(os.RemoveAll(dump), save(ctx, "ok"), os.RemoveAll(dump))
	}
	// It only matters that there is a rule for saving; this one never comes true.
	return settings(s, Fault{Name: "full disk", Effect: Errs, Says: "MISCONF"},
		[][2]string{{"stop-writes-on-bgsave-error", "yes"}, {"save", "1000000000 1000000000"}}, begin, end)
}

// What a loading server loads besides its own keys: it looks after its clients once per
// KiB, so it answers within about slowness, and loads for fillers times that, some 10 s,
// unless the fault ends before.
const (
	fillers  = 8000
	slowness = time.Millisecond // per key
)

// Loading shuts the server down and starts it with its keys, and many that take time to
// load; at the end it has loaded them, and those are gone. For no longer than 8 s.
func Loading(s *redistest.Server) Fault {
	var dump string
	keys := make([]string, fillers)
	for i := range keys {
		keys[i] = fmt.Sprint("sluice:fault:", i)
	}
	return Fault{
		Name: "loading", Effect: Errs, Says: "LOADING",
		begin: func(ctx context.Context) (err error) {
			if dump, err = dumpFile(ctx, s); err != nil {
				return err
			}
			if err := with(s, func(c *redis.Client) error {
				if err := c.ConfigSet(ctx, "rdbcompression", "no").Err(); err != nil {
					return err
				}
				filler, pipe := strings.Repeat(".", 1100), c.Pipeline()
				for _, key := range keys {
					pipe.Set(ctx, key, filler, 0)
				}
				if _, err := pipe.Exec(ctx); err != nil {
					return err
				}
				return c.ShutdownSave(ctx).Err() // saves and ends, with nothing in between
			}); err != nil {
				return err
			}
			if err := s.Kill(); err != nil {
				return err
			}
			return s.Start("--key-load-delay", fmt.Sprint(slowness.Microseconds()),
				"--loading-process-events-interval-bytes", "1024")
		},
		end: func(ctx context.Context) error {
			return errors.Join(with(s, func(c *redis.Client) error {
				if err := c.ConfigSet(ctx, "key-load-delay", "0").Err(); err != nil {
					return err
				}
				if err := loaded(ctx, c); err != nil {
					return err
				}
				return c.Unlink(ctx, keys...).Err()
			}), os.RemoveAll(dump))
		},
	}
}

// settings makes f change settings of the server before begin, and put them back after end.
func settings(s *redistest.Server, f Fault, to [][2]string, begin, end func(context.Context) error) Fault {
	var were [][2]string
	f.begin = func(ctx context.Context) error {
		were = nil
		return errors.Join(with(s, func(c *redis.Client) error {
			for _, set := range to {
				was, err := setting(ctx, c, set[0])
				if err != nil {
					return err
				}
				were = append(were, [2]string{set[0], was})
				if err := c.ConfigSet(ctx, set[0], set[1]).Err(); err != nil {
					return err
				}
			}
			return nil
		}), begin(ctx))
	}
	f.end = func(ctx context.Context) error {
		return errors.Join(end(ctx), with(s, func(c *redis.Client) (err error) {
			for _, was := range were {
				err = errors.Join(err, c.ConfigSet(ctx, was[0], was[1]).Err())
			}
			return err
		}))
	}
	return f
}

func nothing(context.Context) error { return nil }

// with calls f with a client of the server that repeats nothing.
func with(s *redistest.Server, f func(*redis.Client) error) error {
	c := s.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	return errors.Join(f(c), c.Close())
}

func setting(ctx context.Context, c *redis.Client, name string) (string, error) {
	all, err := c.ConfigGet(ctx, name).Result()
	return all[name], err
}

// dumpFile is the path that the server saves to, and loads from when it starts.
func dumpFile(ctx context.Context, s *redistest.Server) (path string, err error) {
	err = with(s, func(c *redis.Client) error {
		dir, err := setting(ctx, c, "dir")
		if err != nil {
			return err
		}
		file, err := setting(ctx, c, "dbfilename")
		path = filepath.Join(dir, file)
		return err
	})
	return path, err
}

const patience = 10 * time.Second

// informed waits until the server's INFO persistence has all of the lines.
func informed(ctx context.Context, c *redis.Client, lines ...string) error {
	return await(ctx, func() error {
		info, err := c.Info(ctx, "persistence").Result()
		for _, line := range lines {
			if err == nil && !strings.Contains(info, line+"\r\n") {
				err = fmt.Errorf("no %s in\n%s", line, info)
			}
		}
		return err
	})
}

// loaded waits until the server has loaded its keys.
func loaded(ctx context.Context, c *redis.Client) error {
	return await(ctx, func() error { return c.Ping(ctx).Err() })
}

// await waits until done has no error.
func await(ctx context.Context, done func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(time.Millisecond):
		}
	}
}
