package queue

import (
	_ "github.com/go-sluice/sluice/algo"
	_ "github.com/go-sluice/sluice/htb" // want
	_ "github.com/google/btree"
)
