// Package doctor implements `conclave doctor`, which checks everything that sessions need and
// prints a remedy for each fault. Start with command.go; each check is a function in
// checks.go. The checks of models and sandbox are those of `models check` and `sandbox
// check`.
package doctor
