package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
	"github.com/go-sluice/sluice/internal/redisclient"
)

// Load returns a gateway that polices by the tree file at path, and connects to the Redis
// that it names. Options that the file has a key for are the file's: Tree, Timeout and
// OnOutage. The error is [config.Errors] for mistakes in the file, and names the
// variable or file that a password should be in, where it cannot be read; that Redis does
// not answer is none, see [New].
func Load(ctx context.Context, path string, opts Options) (*Gateway, error) {
	f, err := parse(path)
	if err != nil {
		return nil, err
	}
	client, err := redisclient.New(f.Redis)
	if err != nil {
		return nil, fmt.Errorf("gateway: %s: %w", path, err)
	}
	opts.Tree, opts.Timeout, opts.OnOutage = f.Tree, f.Redis.Timeout, outages[f.Redis.OnOutage]
	warm, cancel := context.WithTimeout(ctx, patience)
	// Two for decisions, one for the loop. If Redis is not there, the first calls find out.
	_ = redisclient.Warm(warm, client, 3)
	cancel()
	g, err := New(ctx, f.Root, client, opts)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	g.client = client
	return g, nil
}

// ReplaceFile reads the tree file at path and makes it the tree from now on; a file with mistakes
// leaves the old one in force. What it says of Redis is not looked at again.
func (g *Gateway) ReplaceFile(path string) error {
	f, err := parse(path)
	if err != nil {
		return err
	}
	return g.Replace(f.Root)
}

var outages = map[string]htb.Outage{"": htb.Local, "local": htb.Local, "closed": htb.Closed, "open": htb.Open}

func parse(path string) (*config.File, error) {
	f, err := config.ParseFile(path)
	if err != nil {
		return nil, err
	}
	switch {
	case f.Semantics == "kernel":
		return nil, fmt.Errorf("gateway: %s: semantics: kernel is for the shaper: to police, write semantics: strict, or leave it out", path)
	case f.Redis == nil:
		return nil, fmt.Errorf(`gateway: %s: no class can be shared: write redis: {addr: "localhost:6379"} at the top of the file, or load it with config.Load to keep it in this process`, path)
	}
	return f, nil
}
