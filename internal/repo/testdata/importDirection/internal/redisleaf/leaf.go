package redisleaf

import (
	_ "github.com/go-sluice/sluice/htb"
	_ "github.com/redis/go-redis/v9"
)
