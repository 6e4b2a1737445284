// Package config is the configuration of a team: its agents, the model behind
// each, and how they come to a decision. It also reads pipelines.
//
// Start with Team in team.go: its fields are the keys, and their tags give each key's default, choices, range
// and meaning. Everything else follows from them: Parse decodes YAML or JSON into a Team and reports every
// problem with its position, Schema describes the same keys as JSON Schema, Canonical writes a Team with all
// defaults resolved. A new key is a new field.
//
// document.go reads YAML and JSON into nodes with positions; decode.go decodes them into structs by the tags,
// whose rules are in schema.go. Three types share the work: Decoder reads a document and checks a team
// (check.go, server.go), criteriaReader reads evaluation criteria (criteria.go), and graphCheck checks a
// pipeline (graph.go, pipeline.go). Decode reads other configurations that contain teams in the same way.
//
// The package reads no environment variable and opens no connection; names of
// providers and variables are resolved by the worker.
package config
