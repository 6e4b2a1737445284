// Package halltest runs command lines in tests, in this process and in an empty home
// directory. Start with New in shell.go; Server in server.go plays Temporal.
package halltest
