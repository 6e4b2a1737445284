package artifact

import (
	"io/fs"
	"syscall"
)

// changeTime returns the time, in nanoseconds, of the last change to a file's content
// or attributes. Unlike the modification time it cannot be set.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return info.ModTime().UnixNano()
}

func inodeOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
