package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"conclave/engine/text"
)

// Manifest is workspace.json: the files of a workspace, sorted by path.
type Manifest struct {
	Files []File `json:"files"`
}

// The limits of a workspace.
const (
	maxFiles     = 20_000  // files, links and directories, besides those of the base
	maxFileBytes = 2 << 30 // one file; well below the 5 GiB of a single upload to S3
	maxBytes     = 8 << 30 // most bytes of all files
	maxDepth     = 64      // names in a path
)

// parallel is the number of files moved at a time.
const parallel = 8

// ErrCorrupt reports stored content that does not match its hash. Retrying does
// not help.
var ErrCorrupt = errors.New("content does not match its sha256")

// LimitError reports a directory above a limit.
type LimitError struct {
	What string // files, bytes, bytes in a file, directories in a path
	Path string // where the limit was reached
	Max  int64
	Base bool // the directory is to become a base
}

func (e *LimitError) Error() string {
	most := fmt.Sprintf("%d %s", e.Max, e.What)
	if of, ok := strings.CutPrefix(e.What, "bytes"); ok {
		most = text.Size(e.Max) + of
	}
	if e.Base {
		return fmt.Sprintf("the directory has more than %s (at %q): exclude files that the agents do not need in %s", most, e.Path, ignoreFile)
	}
	return fmt.Sprintf("workspace has more than %s (at %q): remove files that the answer does not need", most, e.Path)
}

// Check refuses a manifest that cannot be restored. Paths must be clean, sorted, unique and
// within the limits; files need a hash; links must stay inside.
func (m Manifest) Check() error {
	return m.checkCount(maxFiles)
}

func (m Manifest) checkCount(most int) error {
	if len(m.Files) > most {
		return &LimitError{What: "files", Path: m.Files[most].Path, Max: int64(most)}
	}
	var total int64
	last := ""
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		if f.Path <= last {
			return fmt.Errorf("manifest: %w", nameError("path", f.Path, "entries must be sorted by path, each once"))
		}
		last = f.Path
		if total += f.Size; total > maxBytes {
			return &LimitError{What: "bytes", Path: f.Path, Max: maxBytes}
		}
	}
	return nil
}

func isSum(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(s) == s
}

// peersDir shows the files of peers. It is never part of a manifest.
const peersDir = "peers"

// LoadManifest reads the tree with the given hash. An empty hash is the tree of the layout's
// base, or without a base a tree without files. It fails with ErrCorrupt if the content has
// another hash, and with ErrNotFound if it is missing.
func LoadManifest(ctx context.Context, store Store, layout Layout, hash string) (Manifest, error) {
	c, err := LoadChange(ctx, store, layout, hash)
	if err != nil {
		return Manifest{}, err
	}
	return c.Tree(layout.base), nil
}

// Hash returns the hash under which the manifest is stored in a session without a base, or ""
// if it has no files.
func (m Manifest) Hash() (string, error) { return m.Since(nil).Hash() }

// SumOf returns the SHA-256 of content in hex.
func SumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// PutBlob stores content unless the session has it already, and returns its SHA-256.
func PutBlob(ctx context.Context, store Store, layout Layout, content []byte) (string, error) {
	hash := SumOf(content)
	if err := putBlob(ctx, store, layout.Blob(hash), bytes.NewReader(content), int64(len(content))); err != nil {
		return "", fmt.Errorf("store blob %s: %w", hash, err)
	}
	return hash, nil
}

// maxUnasked is the size, in bytes, up to which content is sent without checking whether the
// store has it: the check would cost as much as sending it.
const maxUnasked = 64 << 10

// putBlob stores content of the given size unless the store has it.
func putBlob(ctx context.Context, store Store, key string, body io.ReadSeeker, size int64) error {
	if size > maxUnasked {
		if exists, err := store.Exists(ctx, key); err != nil || exists {
			return err
		}
	}
	return store.Put(ctx, key, body)
}

// Project copies the files to prefix, within the store, under their escaped paths. A Dir also
// gets the modes and links; other stores have them only in the manifest. Repeating it gives
// the same objects.
func (m Manifest) Project(ctx context.Context, store Store, layout Layout, prefix string) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	dir, local := store.(*Dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if !f.content() && !local {
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
			return transfer(ctx, store, layout, f, prefix+name)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	return nil
}

// Graft replaces the workspace's directory dir with other files, whose content it copies from
// their own layout. It returns the hash of the merged manifest.
func (m Manifest) Graft(ctx context.Context, store Store, layout Layout, dir string, from Layout, files Manifest) (string, error) {
	joined := Manifest{Files: slices.DeleteFunc(slices.Clone(m.Files), func(f File) bool {
		return f.Path == dir || strings.HasPrefix(f.Path, dir+"/")
	})}
	for _, f := range files.Files {
		f.Path = path.Join(dir, f.Path)
		joined.Files = append(joined.Files, f)
	}
	slices.SortFunc(joined.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := joined.Check(); err != nil {
		return "", fmt.Errorf("put files into %s: %w", dir, err)
	}
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range files.Files {
		if f.content() && !layout.base.HasContent(f.SHA256) {
			group.Go(func() error { return transfer(together, store, from, f, layout.Blob(f.SHA256)) })
		}
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("copy files into %s: %w", dir, err)
	}
	return joined.Since(layout.base).store(ctx, store, layout)
}
