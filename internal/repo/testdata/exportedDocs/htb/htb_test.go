package htb

func Exported() {}
