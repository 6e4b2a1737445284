// Package hall is what every room of the command shares: the streams and common
// flags of one invocation (CLI), the place its flags lead to (Target), a connection
// to it (Connection), the checks of arguments, the printing of results, and the exit
// codes. It imports no room; rooms import it.
package hall
