package sim

import "time"

var start = time.Now()
