package artifact

import (
	"io/fs"
	"syscall"
)

// changeTime is when the file's content or attributes last changed, in
// nanoseconds. Unlike the modification time nobody can set it.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return info.ModTime().UnixNano()
}
