// Command does nothing.
package main

func main() {}
