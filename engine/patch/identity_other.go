//go:build !unix

package patch

import (
	"encoding/hex"
	"os"
	"path/filepath"
)

// identity names a directory by its path, because the system has no inodes.
func identity(root *os.Root) (string, error) {
	name, err := filepath.Abs(root.Name())
	return hex.EncodeToString(sum([]byte(name))), err
}
