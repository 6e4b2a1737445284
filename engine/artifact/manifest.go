package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// The limits of a workspace.
const (
	MaxFiles     = 20_000  // files, links and directories
	MaxFileBytes = 2 << 30 // one file; well below the 5 GiB of a single upload to S3
	MaxBytes     = 8 << 30 // all files
	MaxDepth     = 32      // names in a path
)

// parallel is how many files are moved at a time.
const parallel = 8

// ErrCorrupt says that stored content is not what its hash says. Trying again
// does not help.
var ErrCorrupt = errors.New("content does not match its sha256")

// LimitError says that a workspace is larger than allowed.
type LimitError struct {
	What string // files, bytes, bytes in a file, directories in a path
	Path string // where the limit was reached
	Max  int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("workspace has more than %d %s (at %q): remove what the answer does not need", e.Max, e.What, e.Path)
}

// Check reports whether a manifest describes a workspace that can be restored:
// sorted clean paths, each once, within the limits; files with a hash, links
// that stay inside.
func (m Manifest) Check() error {
	if len(m.Files) > MaxFiles {
		return &LimitError{What: "files", Path: m.Files[MaxFiles].Path, Max: MaxFiles}
	}
	var total int64
	last := ""
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		if f.Path <= last {
			return fmt.Errorf("manifest: %w", &NameError{What: "path", Name: f.Path, Problem: "entries must be sorted by path, each once"})
		}
		last = f.Path
		if total += f.Size; total > MaxBytes {
			return &LimitError{What: "bytes", Path: f.Path, Max: MaxBytes}
		}
	}
	return nil
}

func (f File) check() error {
	if _, err := EscapePath(f.Path); err != nil {
		return err
	}
	if strings.Count(f.Path, "/") >= MaxDepth {
		return &LimitError{What: "names in a path", Path: f.Path, Max: MaxDepth}
	}
	if f.Size < 0 || f.Size > MaxFileBytes {
		return &LimitError{What: "bytes in a file", Path: f.Path, Max: MaxFileBytes}
	}
	switch {
	case !utf8.ValidString(f.Path + f.Link):
		return &NameError{What: "path", Name: f.Path, Problem: "it is not valid UTF-8"}
	case f.Link == "" && !isSum(f.SHA256):
		return &NameError{What: "path", Name: f.Path, Problem: "it has neither a sha256 in lower-case hex nor a link"}
	case f.Link != "" && (f.SHA256 != "" || f.Size != 0):
		return &NameError{What: "path", Name: f.Path, Problem: "it has both content and a link"}
	case f.Link != "" && !linkInside(f.Path, f.Link):
		return &NameError{What: "path", Name: f.Path, Problem: fmt.Sprintf("its link %q leaves the workspace", f.Link)}
	}
	return nil
}

func isSum(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(s) == s
}

// linkInside reports whether a link's target, read as text, is a path inside
// the workspace, and not among the peers' files.
func linkInside(name, target string) bool {
	if path.IsAbs(target) || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	to := path.Join(path.Dir(name), target)
	return to != ".." && !strings.HasPrefix(to, "../") && !isPeers(to)
}

// isPeers reports whether a workspace path is, or lies in, the place where
// peers' files are shown. It is filled from outside and never part of a manifest.
func isPeers(name string) bool {
	return name == peersDir || strings.HasPrefix(name, peersDir+"/")
}

const peersDir = "peers"

// LoadManifest reads the manifest with the given hash. The hash of a workspace
// without files is "". A manifest that is not what the hash says fails with
// ErrCorrupt, one that is missing with ErrNotFound.
func LoadManifest(ctx context.Context, store Store, layout Layout, hash string) (Manifest, error) {
	var m Manifest
	if hash == "" {
		return m, nil
	}
	if !isSum(hash) {
		return m, &NameError{What: "manifest hash", Name: hash, Problem: "it is no sha256 in lower-case hex"}
	}
	key := layout.Blob(hash)
	data, err := readBounded(ctx, store, key)
	if err != nil {
		return m, fmt.Errorf("load manifest: %w", err)
	}
	if sumOf(data) != hash {
		return m, fmt.Errorf("load manifest %q: %w", key, ErrCorrupt)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, &MalformedError{Key: key, Err: err}
	}
	if err := m.Check(); err != nil {
		return Manifest{}, &MalformedError{Key: key, Err: err}
	}
	return m, nil
}

// storeManifest stores a manifest as a blob and returns its hash, "" if there
// are no files.
func storeManifest(ctx context.Context, store Store, layout Layout, m Manifest) (string, error) {
	if len(m.Files) == 0 {
		return "", nil
	}
	data, err := EncodeJSON(m)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	hash, err := PutBlob(ctx, store, layout, data)
	if err != nil {
		return "", fmt.Errorf("store manifest: %w", err)
	}
	return hash, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// PutBlob stores content under its SHA-256, which it returns, unless the
// session has it already.
func PutBlob(ctx context.Context, store Store, layout Layout, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	key := layout.Blob(hash)
	there, err := store.Exists(ctx, key)
	if err == nil && !there {
		err = store.Put(ctx, key, bytes.NewReader(content))
	}
	if err != nil {
		return "", fmt.Errorf("storing blob %s: %w", hash, err)
	}
	return hash, nil
}

// Project copies the files of a manifest to prefix, within the store, under
// their escaped paths. A directory gets the modes and the links, too; elsewhere
// they are in the manifest only. It can be repeated: the same manifest gives the
// same objects.
func Project(ctx context.Context, store Store, layout Layout, m Manifest, prefix string) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	dir, local := store.(*Dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if f.Link != "" && !local {
			continue
		}
		group.Go(func() error {
			name, err := EscapePath(f.Path)
			if err != nil {
				return err
			}
			if local {
				return dir.place(ctx, layout, f, prefix+name)
			}
			return store.Copy(ctx, layout.Blob(f.SHA256), prefix+name)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	return nil
}

// Graft puts the files of a workspace of another layout below the directory dir
// of a base workspace, in place of what lies there, and returns the hash of the
// manifest that they make together. Content is copied inside the store.
func Graft(ctx context.Context, store Store, from Layout, files Manifest, to Layout, base Manifest, dir string) (string, error) {
	joined := Manifest{Files: slices.DeleteFunc(slices.Clone(base.Files), func(f File) bool {
		return f.Path == dir || strings.HasPrefix(f.Path, dir+"/")
	})}
	for _, f := range files.Files {
		f.Path = path.Join(dir, f.Path)
		joined.Files = append(joined.Files, f)
	}
	slices.SortFunc(joined.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := joined.Check(); err != nil {
		return "", fmt.Errorf("putting files into %s: %w", dir, err)
	}
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range files.Files {
		if f.Link == "" {
			group.Go(func() error { return store.Copy(together, from.Blob(f.SHA256), to.Blob(f.SHA256)) })
		}
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("copying files into %s: %w", dir, err)
	}
	return storeManifest(ctx, store, to, joined)
}
