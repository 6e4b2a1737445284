//go:build !linux

package artifact

import "io/fs"

// changeTime returns the modification time, in nanoseconds, which every system has.
func changeTime(info fs.FileInfo) int64 { return info.ModTime().UnixNano() }

func inodeOf(fs.FileInfo) uint64 { return 0 }
