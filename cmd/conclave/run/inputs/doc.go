// Package inputs stores the directories and pictures that sessions start from. It has the command
// upload and the flags --base and --context of the commands that start sessions (upload.go) and
// --image of those that ask a question (picture.go), and remembers where a base came from
// (memory.go). Start with Flags.Store in upload.go.
package inputs
