package algo

import clock "time"

func age(t clock.Time) clock.Duration { return clock.Since(t) } // want
