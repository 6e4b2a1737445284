// Package text shortens and cleans text for the places that show it: a
// workflow's result, a memo, a line of a history, a prompt, a terminal.
//
// Head, HeadRunes and Truncate shorten; OneLine, Sanitize, Terminal and
// Markdown clean; Nearest finds the name that a misspelt one was meant to be.
package text
