package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Hash returns the hash by which a file's content is trusted.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// note is the record of a trusted file, for people. Its name is the hash.
type note struct {
	File    string    `json:"file"`
	Trusted time.Time `json:"trusted"`
}

// Trusted reports whether the user has trusted this content.
func Trusted(content []byte) bool {
	dir, err := storeDir()
	if err != nil {
		return false
	}
	info, err := os.Lstat(filepath.Join(dir, Hash(content)))
	return err == nil && info.Mode().IsRegular()
}

// Remember trusts the content of a file until the user removes the record, and
// returns the record's path.
func Remember(file string, content []byte) (record string, err error) {
	dir, err := storeDir()
	if err != nil {
		return "", err
	}
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	data, err := json.Marshal(note{File: file, Trusted: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", file, err)
	}
	record = filepath.Join(dir, Hash(content))
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(record, append(data, '\n'), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", file, err)
	}
	return record, nil
}

// storeDir returns the directory of the records. It follows the XDG base directory
// specification, which ignores relative paths.
func storeDir() (string, error) {
	base := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the directory of trusted files: %w; set XDG_CONFIG_HOME", err)
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "conclave", "trusted"), nil
}
