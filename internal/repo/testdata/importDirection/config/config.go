package config

import (
	_ "github.com/go-sluice/sluice/htb"
	_ "github.com/go-sluice/sluice/internal/sim" // want
	_ "gopkg.in/yaml.v3"
)
