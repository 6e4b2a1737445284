// Package halltest runs command lines in tests, in this process and in an empty home
// directory.
package halltest
