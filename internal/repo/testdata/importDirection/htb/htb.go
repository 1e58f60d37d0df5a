package htb

import (
	_ "github.com/go-sluice/sluice/algo"
	_ "github.com/go-sluice/sluice/config"        // want
	_ "github.com/go-sluice/sluice/internal/fair" // want
	_ "github.com/go-sluice/sluice/queue"
	_ "github.com/redis/go-redis/v9" // want
)
