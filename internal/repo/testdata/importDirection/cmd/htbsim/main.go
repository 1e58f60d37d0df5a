package main

import (
	_ "github.com/go-sluice/sluice/cmd/htbsim/internal/flags"
	_ "github.com/go-sluice/sluice/internal/sim"
	_ "github.com/redis/go-redis/v9"
)
