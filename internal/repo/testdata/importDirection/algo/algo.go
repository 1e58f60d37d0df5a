package algo

import (
	_ "time"

	_ "github.com/go-sluice/sluice"       // want
	_ "github.com/go-sluice/sluice/queue" // want
)
