package htb

import "time"

var start = time.Now()
