package queue

import . "time" // want

var now = Now()
