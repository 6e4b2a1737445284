//go:build !unix

package scratch

import "io/fs"

// owned is true: elsewhere temporary directories are a user's own.
func owned(fs.FileInfo) bool { return true }
