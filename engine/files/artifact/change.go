package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/patch"
	"conclave/engine/text"
)

// Change describes a tree of files by its difference from a base, or by all of its files
// without one. It is sorted and minimal, so equal trees have equal bytes and equal hashes.
type Change struct {
	Base    string `json:"base,omitempty"` // hash of the base's manifest
	Files   []File `json:"files"`          // files added or changed
	Removed paths  `json:"removed,omitempty"`
}

// Since returns the change from base, which may be nil, to the tree m.
func (m Manifest) Since(base *Base) Change {
	c := Change{Base: base.Hash(), Files: []File{}}
	old := base.Manifest().Files
	for _, f := range m.Files {
		for len(old) > 0 && old[0].Path < f.Path {
			c.Removed = append(c.Removed, old[0].Path)
			old = old[1:]
		}
		if len(old) > 0 && old[0].Path == f.Path {
			if old[0] != f {
				c.Files = append(c.Files, f)
			}
			old = old[1:]
			continue
		}
		c.Files = append(c.Files, f)
	}
	c.Removed = append(c.Removed, text.Each(old, func(f File) string { return f.Path })...)
	return c
}

// Tree applies the change to its base and returns the whole tree.
func (c Change) Tree(base *Base) Manifest {
	if base == nil {
		return Manifest{Files: c.Files}
	}
	m := Manifest{Files: make([]File, 0, len(base.manifest.Files)+len(c.Files))}
	changed, removed := c.Files, c.Removed
	for _, f := range base.manifest.Files {
		for len(changed) > 0 && changed[0].Path < f.Path {
			m.Files, changed = append(m.Files, changed[0]), changed[1:]
		}
		switch {
		case len(changed) > 0 && changed[0].Path == f.Path:
			m.Files, changed = append(m.Files, changed[0]), changed[1:]
		case len(removed) > 0 && removed[0] == f.Path:
			removed = removed[1:]
		default:
			m.Files = append(m.Files, f)
		}
	}
	m.Files = append(m.Files, changed...)
	return m
}

// internal lists the directories of a workspace for agents and conclave alone: the checks
// that an agent hands in, its memory, and the files that it is shown.
var internal = []string{".conclave", "memory/short_term", "memory/long_term"}

// Deliverable returns the change without files in internal directories. Except for checks, in
// any spelling, it keeps the files of an internal directory that the base has.
func (c Change) Deliverable(base *Base) Change {
	kept := func(name string) bool {
		if patch.IsBelow(name, ChecksDir) {
			return false
		}
		return !slices.ContainsFunc(internal, func(dir string) bool { return strings.HasPrefix(name+"/", dir+"/") && !base.Has(dir) })
	}
	d := Change{Base: c.Base, Files: make([]File, 0, len(c.Files))}
	for _, f := range c.Files {
		if kept(f.Path) {
			d.Files = append(d.Files, f)
		}
	}
	for _, name := range c.Removed {
		if kept(name) {
			d.Removed = append(d.Removed, name)
		}
	}
	return d
}

// ChecksDir is the directory of a workspace for the checks that an agent hands in.
const ChecksDir = ".conclave/checks"

// Check validates a change: it must be a valid manifest, and the paths that it removes must
// be in the base and not among its files.
func (c Change) Check(base *Base) error {
	if c.Base != base.Hash() {
		return fmt.Errorf("it is a change of the base %q, and the session starts from %q", c.Base, base.Hash())
	}
	if err := (Manifest{Files: c.Files}).Check(); err != nil {
		return err
	}
	last := ""
	for _, name := range c.Removed {
		if name <= last || !base.hasEntry(name) || hasPath(c.Files, name) {
			return nameError("removed path", name, "it must be a file of the base, in order and once")
		}
		last = name
	}
	return nil
}

// Empty reports whether the tree equals the base, or has no files if there is no base.
func (c Change) Empty() bool {
	if c.Base != "" {
		return len(c.Files)+len(c.Removed) == 0
	}
	return !slices.ContainsFunc(c.Files, func(f File) bool { return !f.Dir })
}

// Hash returns the hash under which the change is stored, or "" for an empty change.
func (c Change) Hash() (string, error) {
	if c.Empty() {
		return "", nil
	}
	data, err := EncodeJSON(c)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	return SumOf(data), nil
}

// LoadChange reads the change with the given hash from the layout's base. An empty hash is an
// empty change. It returns the errors of LoadManifest.
func LoadChange(ctx context.Context, store Store, layout Layout, hash string) (Change, error) {
	none := Change{Base: layout.base.Hash()}
	if hash == "" {
		return none, nil
	}
	if !isSum(hash) {
		return none, nameError("manifest hash", hash, "it is not a sha256 in lower-case hex")
	}
	key := layout.Blob(hash)
	data, err := readBounded(ctx, store, key)
	if err != nil {
		return none, fmt.Errorf("load manifest: %w", err)
	}
	if SumOf(data) != hash {
		return none, fmt.Errorf("load manifest %q: %w", key, ErrCorrupt)
	}
	var c Change
	if err = json.Unmarshal(data, &c); err == nil {
		err = c.Check(layout.base)
	}
	if err != nil {
		return none, &MalformedError{Key: key, Err: err}
	}
	return c, nil
}

func (c Change) storeBlob(ctx context.Context, store Store, layout Layout) (string, error) {
	if c.Empty() {
		return "", nil
	}
	data, _ := EncodeJSON(c) // encoding of strings and numbers cannot fail
	hash, err := PutBlob(ctx, store, layout, data)
	if err != nil {
		return "", fmt.Errorf("store manifest: %w", err)
	}
	return hash, nil
}

// Delta returns the change as the delta of a workspace that has the base's files.
func (c Change) Delta() Delta { return Delta{Changed: c.Files, Removed: c.Removed} }

// Change returns the minimal change for the delta of a workspace that had the files of base,
// which may be nil.
func (d Delta) Change(base *Base) Change {
	c := Change{Base: base.Hash(), Files: []File{}}
	for _, f := range d.Changed {
		if old, ok := base.File(f.Path); !ok || old != f {
			c.Files = append(c.Files, f)
		}
	}
	for _, name := range d.Removed {
		if base.hasEntry(name) && !hasPath(c.Files, name) {
			c.Removed = append(c.Removed, name)
		}
	}
	slices.SortFunc(c.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(c.Removed, strings.Compare)
	return c
}

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

// ErrCorrupt reports stored content that does not match its hash. Retrying does not help.
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
		if err := f.checkEntry(); err != nil {
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

func putBlob(ctx context.Context, store Store, key string, body io.ReadSeeker, size int64) error {
	if size > maxUnasked {
		if exists, err := store.Exists(ctx, key); err != nil || exists {
			return err
		}
	}
	return store.Put(ctx, key, body)
}

// Project copies the files to prefix, within the store, under their escaped paths. A Dir also gets the modes
// and links; other stores have them only in the manifest. Repeating it gives the same objects.
func (m Manifest) Project(ctx context.Context, store Store, layout Layout, prefix string) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	dir, local := store.(*Dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if !f.isRegular() && !local {
			continue
		}
		group.Go(func() error {
			name, err := EscapePath(f.Path)
			if err != nil {
				return err
			}
			if local {
				return dir.placeEntry(ctx, layout, f, prefix+name)
			}
			return copyContent(ctx, store, layout, f, prefix+name)
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
		if f.isRegular() && !layout.base.HasContent(f.SHA256) {
			group.Go(func() error { return copyContent(together, store, from, f, layout.Blob(f.SHA256)) })
		}
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("copy files into %s: %w", dir, err)
	}
	return joined.Since(layout.base).storeBlob(ctx, store, layout)
}
