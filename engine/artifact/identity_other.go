//go:build !linux

package artifact

import "io/fs"

// changeTime is when the file was last written, in nanoseconds: what every
// system can say.
func changeTime(info fs.FileInfo) int64 { return info.ModTime().UnixNano() }
