package htb

// TODO: borrow // want

/*
FIXME // want
*/

func f() { panic("XXX") } // want

const xxxTODOS = "a name is no mark"
