package htb

import (
	"math/rand/v2" // want
	"time"
)

const wait = 2 * time.Second

var now = time.Now // want

func pause() {
	time.Sleep(wait)         // want
	<-time.After(wait)       // want
	_ = time.NewTicker(wait) // want
	_ = time.Unix(rand.N(9), 0)
}
