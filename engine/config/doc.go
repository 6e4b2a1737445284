// Package config is the configuration of a team: which agents there are, the
// model behind each, and how they come to a decision.
//
// Start with Team: its fields are the configuration's keys, and their tags say
// each key's default, choices, range and meaning. Everything else follows from
// them: Parse decodes YAML or JSON into a Team and reports every problem with
// its place, Schema describes the same keys as JSON Schema, Canonical writes a
// Team with all defaults resolved. A new key is a new field.
//
// Decode lets another configuration that contains teams be read in the same way
// (section.go).
//
// Four things are not in the tags. The checks of agents and their backends are
// in check.go, what keys say about each other in agreement.go, what a value may
// reach (keys, addresses) in secret.go and reach.go, and the keys that are known
// but do nothing yet in unavailable.go.
//
// The package does not resolve anything: it reads no environment variable, knows
// no provider and opens no connection. That is the worker's business.
package config
