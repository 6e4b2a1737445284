// Package redact removes secrets from everything that is stored or shown.
//
// A Redactor replaces secrets for good in text and errors: the keys of models and the
// variables of workers. A Vault replaces secrets with markers, from which they can be
// restored: a scenario's credentials, which a step needs again when it resumes from its
// journal. JSON applies either of them to a document without breaking it. LooksSecret,
// SecretKey and Environment recognize secrets by their form and their names; SecretFile recognizes
// files that hold them, by the rules in gitleaks.toml and rules.toml.
//
// Start with Redactor and Vault in redact.go.
package redact
