// Package pages tests the pages of sessions in a real browser.
package pages
