package htb

// TODO: tests may say what they lack.
