package redisclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-sluice/sluice/config"
)

// maxSecret is the longest password, in bytes.
const maxSecret = 64 << 10

// secret reads a password from the environment variable env or the file at path; "" if
// both are "". envKey and pathKey are what the tree file calls these.
func secret(envKey, env, pathKey, path string) (string, error) {
	switch {
	case env != "":
		s, ok := os.LookupEnv(env)
		if !ok {
			return "", fmt.Errorf("redisclient: %s: the environment variable %s is not set", envKey, env)
		}
		if s == "" {
			return "", fmt.Errorf("redisclient: %s: the environment variable %s is empty", envKey, env)
		}
		return s, nil
	case path == "":
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("redisclient: %s: %w", pathKey, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("redisclient: %s: %w", pathKey, err)
	}
	s := string(data)
	if line, ok := strings.CutSuffix(s, "\n"); ok {
		s = strings.TrimSuffix(line, "\r")
	}
	switch {
	case s == "":
		return "", fmt.Errorf("redisclient: %s: %s is empty", pathKey, path)
	case len(data) > maxSecret:
		return "", fmt.Errorf("redisclient: %s: %s has more than %d bytes", pathKey, path, maxSecret)
	}
	return s, nil
}

// tlsConfig returns nil if t is not on. go-redis fills in the name of the host.
func tlsConfig(t config.TLS) (*tls.Config, error) {
	if !t.On {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var errs []error
	if t.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if data, err := os.ReadFile(t.CA); err != nil {
			errs = append(errs, fmt.Errorf("redisclient: tls: ca: %w", err))
		} else if !c.RootCAs.AppendCertsFromPEM(data) {
			errs = append(errs, fmt.Errorf("redisclient: tls: ca: %s holds no certificate in PEM", t.CA))
		}
	}
	if t.Cert != "" {
		if pair, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			errs = append(errs, fmt.Errorf("redisclient: tls: cert %s and key %s: %w", t.Cert, t.Key, err))
		} else {
			c.Certificates = []tls.Certificate{pair}
		}
	}
	return c, errors.Join(errs...)
}
