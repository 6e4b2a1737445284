package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
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

// subject is what trust is given to. Its hash names the record.
type subject struct {
	File    string     `json:"file"`
	Content string     `json:"sha256"`
	Named   []contents `json:"names,omitempty"`
}

// contents is a path that an MCP server names, with the hash of the file there; empty if there is no
// file that can be read.
type contents struct {
	Path string `json:"path"`
	Hash string `json:"sha256"`
}

// Hash returns the hash by which a file is trusted: that of its place, its content, and the content
// of the files that its MCP servers name by their paths.
func (f File) Hash() string { return f.subject().hash() }

func (s subject) hash() string {
	data, _ := json.Marshal(s) // of strings only
	return hash(data)
}

func (f File) subject() subject {
	s := subject{File: f.Name, Content: hash(f.Content)}
	if abs, err := filepath.Abs(f.Name); err == nil {
		s.File = abs
	}
	// The file itself may be a link to one in another place, the directory has one place.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(s.File)); err == nil {
		s.File = filepath.Join(dir, filepath.Base(s.File))
	}
	for _, path := range named(f.Team) {
		s.Named = append(s.Named, contents{path, hashFile(path)})
	}
	return s
}

// named returns the absolute paths in the definitions of MCP servers, sorted. Paths relative to the
// configuration are absolute since it was read.
func named(t config.Team) []string {
	var paths []string
	for _, a := range t.Models() {
		for _, server := range a.MCPServers {
			words := append([]string{server.Command}, server.Args...)
			for _, value := range server.Env {
				words = append(words, value)
			}
			for _, word := range words {
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

func hashFile(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
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
// path. The record is a note for people; its name is the hash.
func Remember(f File) (record string, err error) {
	dir, err := storeDir()
	if err != nil {
		return "", err
	}
	s := f.subject()
	data, err := json.Marshal(struct {
		subject
		Trusted time.Time `json:"trusted"`
	}{s, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return "", fmt.Errorf("remember that %s is trusted: %w", f.Name, err)
	}
	record = filepath.Join(dir, s.hash())
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
