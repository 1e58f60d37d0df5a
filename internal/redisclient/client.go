// Package redisclient connects to the servers that a tree file names: one, a cluster, or
// a master that Sentinels watch. It stands apart from config so that programs which
// read trees and keep them in memory need no Redis client.
package redisclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/go-sluice/sluice/config"
)

// Name is what a server lists the client as.
const Name = "sluice"

// connecting is how long it may take to connect: above the 1 s after which TCP sends a
// lost SYN again.
const connecting = 2 * time.Second

// New returns a client of the servers that r names, which connects once it is used. It
// is an error, that names them but never what they hold, if an environment variable or
// a file that r names cannot be read; all of them are told at once.
//
// Each call is to have a deadline of its own, which the client heeds. Calls are not
// repeated, since a decision or a report done twice counts twice. A connection is made
// beside the calls that wait for one: at their deadlines they leave, and it serves later
// ones. To greet the server, though, takes two trips more, within the deadline of the
// first call that gets the connection; see [Warm].
func New(r *config.Redis) (redis.UniversalClient, error) {
	if r == nil {
		return nil, errors.New("redisclient: the tree file has no redis: block")
	}
	o := &redis.UniversalOptions{
		Addrs: r.Addrs, DB: r.DB, ClientName: Name,
		SentinelUsername: r.SentinelUser,

		ContextTimeoutEnabled: true,
		// These are for what has no deadline of its own, such as asking a Sentinel.
		DialTimeout: max(connecting, 4*r.Timeout), ReadTimeout: max(connecting, 4*r.Timeout), WriteTimeout: max(connecting, 4*r.Timeout),
		// A connection that is not free within a call's time is of no use to it.
		PoolTimeout: r.Timeout,
		MaxRetries:  -1,
		// That nothing listens is told at once, not after tries in half a second.
		DialerRetries: 1,
		// One pool, so that Warm warms what pipelines use too.
		PipelinePoolSize: -1,
		// A connection that was warm stays; a dead one is noticed when it is taken.
		ConnMaxIdleTime: -1,

		// Neither is worth a trip per connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	password, err := secret("passwordEnv", r.PasswordEnv, "passwordFile", r.PasswordFile)
	if password != "" {
		// A function prints as an address, whoever dumps the client's options.
		o.CredentialsProvider = func() (string, string) { return r.User, password }
	}
	var sentinel, certs error
	o.SentinelPassword, sentinel = secret("sentinelPasswordEnv", r.SentinelPasswordEnv, "sentinelPasswordFile", r.SentinelPasswordFile)
	o.TLSConfig, certs = tlsConfig(r.TLS)
	if err := errors.Join(err, sentinel, certs); err != nil {
		return nil, err
	}
	var client redis.UniversalClient
	switch {
	case r.Cluster:
		c := redis.NewClusterClient(o.Cluster())
		c.OnNewNode(func(node *redis.Client) { node.AddHook(dialling{}) })
		return c, nil
	case r.Sentinel != "":
		o.MasterName = r.Sentinel
		client = redis.NewFailoverClient(o.Failover())
	default:
		client = redis.NewClient(o.Simple())
	}
	client.AddHook(dialling{})
	return client, nil
}

// Warm connects to every master n times, so that calls find that many connections made
// and greeted, which takes four trips: more than the deadline of a call may have. Do it
// before the first call and, where calls fail, to try whether the servers are back.
func Warm(ctx context.Context, client redis.UniversalClient, n int) error {
	switch c := client.(type) {
	case *redis.Client:
		return warm(ctx, c, n)
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return warm(ctx, node, n) })
	}
	return fmt.Errorf("redisclient: cannot warm a client of type %T", client)
}

func warm(ctx context.Context, client *redis.Client, n int) error {
	for range n {
		conn := client.Conn()
		defer conn.Close() // back into the pool, when all are made
		if err := conn.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("redisclient: %w", err)
		}
	}
	return nil
}
