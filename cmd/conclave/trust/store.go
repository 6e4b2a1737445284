package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/engine/config"
)

// File is a team configuration in its place.
type File struct {
	Name    string
	Content []byte      // the bytes that Team was parsed from
	Team    config.Team // its MCP servers may name further files
}

// Hash returns the hash by which a file is trusted: that of its place, its content, and the content
// of the files that its MCP servers name by their paths.
func (f File) Hash() string {
	parts := []string{f.place(), hash(bytes.NewReader(f.Content))}
	for _, path := range named(f.Team) {
		content := ""
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if file, err := os.Open(path); err == nil {
				content = hash(file)
				file.Close()
			}
		}
		parts = append(parts, path, content)
	}
	data, _ := json.Marshal(parts) // of strings only
	return hash(bytes.NewReader(data))
}

// place returns the absolute path of the file. Its directory is resolved, but not a link in its
// place, beside which lie other files than beside its target.
func (f File) place() string {
	dir, err := filepath.Abs(filepath.Dir(f.Name))
	if resolved, unresolved := filepath.EvalSymlinks(dir); err == nil && unresolved == nil {
		dir = resolved
	}
	return filepath.Join(dir, filepath.Base(f.Name))
}

// named returns the absolute paths in the definitions of MCP servers, sorted. Relative ones were made
// absolute when the configuration was read.
func named(t config.Team) []string {
	var paths []string
	for _, a := range t.Models() {
		for _, server := range a.MCPServers {
			for _, word := range slices.Concat([]string{server.Command}, server.Args, slices.Collect(maps.Values(server.Env))) {
				if option, of, ok := strings.Cut(word, "="); ok && strings.HasPrefix(option, "-") {
					word = of
				}
				if filepath.IsAbs(word) {
					paths = append(paths, word)
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// hash returns the hash of the files that can be read.
func hash(r io.Reader) string {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// note is the record of a trusted file, for people. Its name is the hash.
type note struct {
	File    string    `json:"file"`
	Trusted time.Time `json:"trusted"`
}

// Trusted reports whether the user has trusted the file as it is now.
func Trusted(f File) bool {
	dir, err := storeDir()
	if err != nil {
		return false
	}
	info, err := os.Lstat(filepath.Join(dir, f.Hash()))
	return err == nil && info.Mode().IsRegular()
}

// Remember trusts a file as it is now until the user removes the record, and returns the record's
// path.
func Remember(f File) (record string, err error) {
	dir, err := storeDir()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(note{File: f.place(), Trusted: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", f.Name, err)
	}
	record = filepath.Join(dir, f.Hash())
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(record, append(data, '\n'), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", f.Name, err)
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
