//go:build !unix

package filelock

func isOwnFile(string) bool { return true } // elsewhere temporary directories are a user's own
