// Package doctor implements the commands that check the needs of sessions, and the keys of histories:
//
//   - doctor checks everything and prints a remedy for each fault. Start with command.go; each
//     check is a function in checks.go. Those of models and sandbox are the two checks below.
//   - models check (models_command.go) calls every model of a team once, with one tool, and prints
//     whether the model's agents can take part. check.go makes the calls.
//   - sandbox check (sandbox_check.go) reports the sandbox level that this host offers, attacks the
//     sandbox, and prints which attacks were stopped. Start with Attack.
//   - codec (codec.go): key makes a key for the encryption of histories, serve decrypts payloads for
//     Temporal's Web UI and command line. The encryption is in package worker/cluster.
package doctor
