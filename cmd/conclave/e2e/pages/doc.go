// Package pages tests the pages of sessions in a real browser. Start with browser_test.go.
package pages
