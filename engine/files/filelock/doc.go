// Package filelock locks files with flock on Unix and LockFileEx on Windows, and makes temporary
// directories that outlive no process for long.
//
// A lock belongs to an open file. It is released when the file is closed, or when the last process that has
// it open dies. Start with Wait and Try; TryFile and WaitFile lock a file that the caller opened, such as one
// below an os.Root or one inherited from the parent process.
//
// The temporary directories of a killed process are removed by the next one that makes any, as its
// lock on a file beside them is free. Start with OpenScratch in scratch.go.
package filelock
