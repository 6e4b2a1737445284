// Package settings is the operator's configuration of a worker: the providers that teams can name,
// the teams that sessions can name, and the worker's limits.
//
// It is read from a file, never from the input of a session. The same rules apply to its teams as
// to such inputs: they name providers, and cannot define addresses, keys or programs. Package
// worker builds models from providers and looks up their keys.
//
// Start with Settings: its fields are the keys of the file, which package config decodes according
// to their tags.
package settings
