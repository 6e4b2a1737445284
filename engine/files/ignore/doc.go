// Package ignore matches paths against patterns with the syntax of .gitignore. It reads no files.
//
// Start with List. glob.go translates wildcards into regular expressions.
package ignore
