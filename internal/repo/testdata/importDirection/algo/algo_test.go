package algo_test

import (
	_ "github.com/go-sluice/sluice/internal/fair"
	_ "gopkg.in/yaml.v3" // want
)
