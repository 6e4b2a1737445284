package pull

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"conclave/engine/artifact"
)

// tempDir holds unfinished files. No key can name it.
const tempDir = ".conclave-tmp"

// writeFile makes a file appear whole under name, or not at all, replacing
// what was there.
func writeFile(root *os.Root, name string, fill func(io.Writer) (int64, error)) (int64, error) {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return 0, err
	}
	if err := root.MkdirAll(tempDir, 0o755); err != nil {
		return 0, err
	}
	temp := tempDir + "/" + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Remove(temp) }() // after the rename it is gone already
	n, err := fill(f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return n, err
	}
	return n, root.Rename(temp, name)
}

// makeLink makes name a symbolic link to target.
func makeLink(root *os.Root, name, target string) error {
	if there, err := root.Readlink(name); err == nil && there == target {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(target, name)
}

// readDocument reads a JSON file of the directory.
func readDocument[T any](root *os.Root, name string) (T, error) {
	var doc T
	f, err := root.Open(name)
	if err != nil {
		return doc, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, artifact.MaxDocument))
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return doc, fmt.Errorf("%s: %w", name, err)
	}
	return doc, nil
}

// fileSum is the SHA-256 in hex of a regular file; there is none if nothing else
// is wrong than that the file is not there, or is no such file.
func fileSum(root *os.Root, name string) (sum string, ok bool, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	f, err := root.Open(name)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(hash.Sum(nil)), true, nil
}
