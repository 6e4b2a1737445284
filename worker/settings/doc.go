// Package settings is the operator's configuration of a worker: the providers
// that teams can name, the teams that sessions can name, and the worker's limits.
//
// It only reads and checks a file. It is never taken from a session's input, and
// the teams in it obey the rules of such an input: they name providers, they do
// not define addresses, keys or programs. Package worker turns providers into
// models and looks up their keys.
//
// Start with Settings: its fields are the keys of the file, and their tags say
// the rest, as in package config, whose decoder reads them.
package settings
