package sim

import (
	_ "github.com/go-sluice/sluice/cmd/htbsim" // want
	_ "github.com/go-sluice/sluice/config"
	_ "gopkg.in/yaml.v3" // want
)
