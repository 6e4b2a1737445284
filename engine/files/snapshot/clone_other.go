//go:build !linux

package snapshot

import (
	"errors"
	"os"
)

// shareBlocks returns false, because this system does not share blocks between files.
func shareBlocks(_, _ *os.File) bool { return false }

// clearAttributes fails on this system, so a copy in which a directory has changed is not lent again.
func clearAttributes(string) error { return errors.ErrUnsupported }
