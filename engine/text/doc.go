// Package text shortens and cleans text for the places that show it: a
// workflow's result, a memo, a line of a history, a prompt, a terminal.
//
// Head, Tail, HeadRunes and the functions whose names begin with Truncate shorten; OneLine,
// Sanitize, Terminal, Markdown and Within clean; Nearest corrects a misspelt name; Size formats
// bytes. Start with Truncate in text.go.
package text
