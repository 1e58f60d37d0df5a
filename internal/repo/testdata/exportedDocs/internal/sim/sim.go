package sim

func Exported() {}
