// Package settings is the operator's configuration of a worker: the providers
// that teams can name, the teams that sessions can name, and the worker's limits.
//
// It is read from a file, never from a session's input. Its teams obey the rules of such
// an input: they name providers, and define no addresses, keys or programs. Package
// worker builds models from providers and looks up their keys.
//
// Start with Settings: its fields are the keys of the file, and package config
// decodes them by their tags.
package settings
