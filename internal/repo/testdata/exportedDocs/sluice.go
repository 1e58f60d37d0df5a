package sluice

func Now() int { return 0 } // want
