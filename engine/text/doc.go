// Package text shortens and cleans text for the places that show it: a workflow's result, a memo, a line of a
// history, a prompt, a terminal. It also removes secrets from everything that is stored or shown.
//
// # Showing
//
// Head, Tail, HeadRunes and the functions whose names begin with Truncate shorten; OneLine,
// Sanitize, Terminal, Markdown and Within clean; Nearest corrects a misspelt name; Size formats
// bytes; Each lists the names of things. Start with Truncate in text.go.
//
// # Secrets
//
// A Redactor replaces secrets for good in text and errors: the keys of models and the variables of workers. A
// Vault replaces secrets with markers, from which they can be restored: a scenario's credentials, which a
// step needs again when it resumes from its journal. RedactJSON applies either of them to a document without
// breaking it. LooksSecret, SecretKey and SecretVariable recognize secrets by their form and their names;
// SecretFile recognizes files that hold them, by the rules in gitleaks.toml and rules.toml. Start with
// Redactor and Vault in redact.go.
package text
