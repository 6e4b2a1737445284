//go:build !unix

package patch

import (
	"encoding/hex"
	"os"
	"path/filepath"
)

// dirIdentity names a directory by its path, because the system has no inodes.
func dirIdentity(root *os.Root) (string, error) {
	name, err := filepath.Abs(root.Name())
	return hex.EncodeToString(hashContent([]byte(name))), err
}
