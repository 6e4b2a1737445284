package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/patch"
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
	for _, f := range old {
		c.Removed = append(c.Removed, f.Path)
	}
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
		return !slices.ContainsFunc(internal, func(dir string) bool { return isBelow(name, dir) && !base.Has(dir) })
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

func isBelow(name, dir string) bool { return strings.HasPrefix(name+"/", dir+"/") }

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
		if name <= last || !base.contains(name) || contains(c.Files, name) {
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

// store stores the change as a blob and returns its hash, which is empty for an empty change.
func (c Change) store(ctx context.Context, store Store, layout Layout) (string, error) {
	if c.Empty() {
		return "", nil
	}
	data, err := EncodeJSON(c)
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
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
		if base.contains(name) && !contains(c.Files, name) {
			c.Removed = append(c.Removed, name)
		}
	}
	slices.SortFunc(c.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(c.Removed, strings.Compare)
	return c
}
