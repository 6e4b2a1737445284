// Package material stores the directories that sessions start from. It has the command
// upload and the flags --base and --context of the commands that start sessions.
package material
