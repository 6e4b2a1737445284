// Package material stores the directories that sessions start from. It has the command
// upload and the flags --base and --context of the commands that start sessions. Start
// with Flags.Store in flags.go, then upload.go.
package material
