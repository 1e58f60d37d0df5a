package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Slots is how many slots a cluster has.
const Slots = 16384

// nodeTimeout is after how many milliseconds of silence a node counts as failed.
const nodeTimeout = 500

// Cluster is a Redis Cluster on ports of its own: masters, and of each as many replicas.
type Cluster struct {
	Nodes []*Node // the masters, then the first replica of each, and so on
}

// Node is a server of a cluster.
type Node struct {
	*Server
	ID   string
	Addr string // by TCP

	admin *redis.Client
}

// LaunchCluster starts a cluster and returns when all of it agrees that it is well.
func LaunchCluster(masters, replicas int) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for range masters * (1 + replicas) {
		n, err := launchNode()
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	for i, n := range c.Nodes {
		if n.ID, err = n.admin.Do(ctx, "cluster", "myid").Text(); err != nil {
			return c, err
		}
		if err := n.admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return c, err
		}
		if i < masters {
			if err := n.admin.ClusterAddSlotsRange(ctx, i*Slots/masters, (i+1)*Slots/masters-1).Err(); err != nil {
				return c, err
			}
		}
		if host, port, _ := net.SplitHostPort(n.Addr); i > 0 {
			if err := c.Nodes[0].admin.ClusterMeet(ctx, host, port).Err(); err != nil {
				return c, err
			}
		}
	}
	if err := c.await(ctx, "all have met", func(n *Node) bool {
		return len(n.view(ctx, "connected")) == len(c.Nodes) && len(n.view(ctx, "handshake")) == 0
	}); err != nil {
		return c, err
	}
	for i, n := range c.Nodes[masters:] {
		if err := n.admin.ClusterReplicate(ctx, c.Nodes[i%masters].ID).Err(); err != nil {
			return c, err
		}
	}
	return c, c.await(ctx, "all is well", func(n *Node) bool {
		return len(n.view(ctx, "slave")) == masters*replicas && strings.Contains(n.admin.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
			!strings.Contains(n.admin.Info(ctx, "replication").Val(), "master_link_status:down")
	})
}

// view returns, of all nodes that n knows and of which it says word, its line split into
// fields: id, address, flags, master, two times, epoch, link, slots.
func (n *Node) view(ctx context.Context, word string) (lines [][]string) {
	for line := range strings.Lines(n.admin.ClusterNodes(ctx).Val()) {
		if fields := strings.Fields(line); strings.Contains(line, word) && len(fields) >= 8 && !strings.Contains(fields[7], "dis") {
			lines = append(lines, fields)
		}
	}
	return lines
}

// launchNode starts a server on a port whose neighbour 10000 above is free too.
func launchNode() (n *Node, err error) {
	for range 20 {
		var port int
		if port, err = freePort(); err != nil {
			continue
		}
		var s *Server
		s, err = Launch("--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
			"--cluster-node-timeout", strconv.Itoa(nodeTimeout), "--cluster-require-full-coverage", "no",
			"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		if err == nil {
			return &Node{Server: s, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), admin: s.Client(nil)}, nil
		}
		if !strings.Contains(err.Error(), "in use") { // taken meanwhile: another
			return nil, err
		}
	}
	return nil, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if port > 55535 {
		port -= 10_000
		first, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return 0, fmt.Errorf("redistest: %w", err)
		}
		return port, first.Close()
	}
	bus, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10_000)))
	if err != nil {
		return 0, fmt.Errorf("redistest: %w", err)
	}
	return port, bus.Close()
}

// await waits until done is true of all nodes.
func (c *Cluster) await(ctx context.Context, what string, done func(*Node) bool) error {
	for _, n := range c.Nodes {
		for !done(n) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("redistest: waiting until %s: %w\n%s", what, ctx.Err(), n.admin.ClusterNodes(context.Background()).Val())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

// Client returns a new client of the cluster, with the go-redis defaults but for what set
// changes. The caller closes it.
func (c *Cluster) Client(set func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{}
	for _, n := range c.Nodes {
		opts.Addrs = append(opts.Addrs, n.Addr)
	}
	if set != nil {
		set(opts)
	}
	return redis.NewClusterClient(opts)
}

// Admin returns a client of the node alone; it is closed with the cluster.
func (n *Node) Admin() *redis.Client { return n.admin }

// Master returns the node that has the key's slot by what the node asked says, and the
// slot.
func (c *Cluster) Master(ctx context.Context, asked *Node, key string) (*Node, int, error) {
	slot, err := asked.admin.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, 0, err
	}
	for _, fields := range asked.view(ctx, "master") {
		for _, slots := range fields[8:] {
			first, last, isRange := strings.Cut(slots, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || int(slot) < from || int(slot) > to { // or one that moves: [...]
				continue
			}
			for _, n := range c.Nodes {
				if n.ID == fields[0] {
					return n, int(slot), nil
				}
			}
		}
	}
	return nil, int(slot), fmt.Errorf("redistest: nobody has slot %d", slot)
}

// Migrate moves a slot from one master to another as an operator does; between is called
// while some of its keys, if there are any, are with each.
func (c *Cluster) Migrate(ctx context.Context, slot int, from, to *Node, between func()) error {
	if err := to.admin.Do(ctx, "cluster", "setslot", slot, "importing", from.ID).Err(); err != nil {
		return err
	}
	if err := from.admin.Do(ctx, "cluster", "setslot", slot, "migrating", to.ID).Err(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return err
	}
	for {
		keys, err := from.admin.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			return err
		}
		if between(); len(keys) == 0 {
			break
		}
		// A key that expired meanwhile is no error, but NOKEY.
		if err := from.admin.Migrate(ctx, host, port, keys[0], 0, patience).Err(); err != nil {
			return err
		}
	}
	// The one that gets the slot first: else a client that comes between is sent in circles.
	for _, n := range []*Node{to, from} {
		if err := n.admin.Do(ctx, "cluster", "setslot", slot, "node", to.ID).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all servers and removes what they left.
func (c *Cluster) Close() (err error) {
	for _, n := range c.Nodes {
		err = errors.Join(err, n.admin.Close(), n.Server.Close())
	}
	return err
}
