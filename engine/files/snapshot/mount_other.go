//go:build !linux

package snapshot

import (
	"errors"
	"io/fs"
	"os"

	"conclave/engine/files/filelock"
)

// HasOwner returns true, because this system has no mounts that require an owner.
func HasOwner(fs.FileInfo) bool { return true }

// canGive returns true, because this system has no mounts that require an owner.
func canGive(*os.File) bool { return true }

// lockTree fails, because this system has no mounts of an unpacked base.
func lockTree(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// removeUnused removes an unpacked base. It reports whether it has.
func removeUnused(tree string) (bool, error) { return true, filelock.RemoveTree(tree) }
