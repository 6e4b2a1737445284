package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"conclave/engine/artifact"
)

// manifest compares the workspace in dir with its manifest, and returns the hash
// of that; empty if there is none.
func (v *verifier) manifest(ctx context.Context, dir string) (string, error) {
	name := dir + "workspace.json"
	data, err := v.read(ctx, name)
	if err != nil {
		return "", err
	}
	if data == nil {
		return "", nil
	}
	var m artifact.Manifest
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	if err := json.Unmarshal(data, &m); err != nil {
		v.wrong(name, "is malformed: %v", err)
		return hash, nil
	}
	if err := m.Check(); err != nil {
		v.wrong(name, "is no manifest: %v", err)
		return hash, nil
	}
	v.found.Manifests++
	return hash, v.files(ctx, dir+"workspace", m)
}

// files compares a directory with a manifest. In a copy, unlike in a workspace
// that an agent works in, nothing is ignored: everything in it is listed, and
// everything listed is in it. Empty directories are not.
func (v *verifier) files(ctx context.Context, dir string, m artifact.Manifest) error {
	missing := make(map[string]artifact.File, len(m.Files))
	for _, f := range m.Files {
		missing[f.Path] = f
	}
	walk := func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			v.wrong(name, "cannot be read: %v", cause(err))
			return nil
		case e.IsDir():
			return nil
		}
		relative := strings.TrimPrefix(name, dir+"/")
		f, listed := missing[relative]
		delete(missing, relative)
		if !listed {
			v.wrong(name, "is extra: no manifest lists it")
			return nil
		}
		v.file(name, f)
		return nil
	}
	var err error
	switch info, statErr := v.root.Lstat(dir); {
	case errors.Is(statErr, fs.ErrNotExist): // then everything is missing
	case statErr != nil:
		v.wrong(dir, "cannot be read: %v", cause(statErr))
	case !info.IsDir():
		v.wrong(dir, "is no directory") // a link to one would be followed
	default:
		err = fs.WalkDir(v.root.FS(), dir, walk)
	}
	for _, relative := range slices.Sorted(maps.Keys(missing)) {
		v.wrong(dir+"/"+relative, "is missing: the manifest lists it")
	}
	return err
}

// file compares one file or link with its entry.
func (v *verifier) file(name string, want artifact.File) {
	if want.Link != "" {
		if to, err := v.root.Readlink(name); err != nil || to != want.Link {
			v.wrong(name, "is not the link to %q that the manifest lists", want.Link)
		}
		return
	}
	const executable = 0o100
	info, err := v.root.Lstat(name)
	if err != nil {
		v.wrong(name, "cannot be read: %v", cause(err))
		return
	}
	sum, regular, err := fileSum(v.root, name)
	is, should := uint32(info.Mode().Perm())&executable, want.Mode&executable
	switch {
	case err != nil:
		v.wrong(name, "cannot be read: %v", cause(err))
	case !regular:
		v.wrong(name, "is not the regular file that the manifest lists")
	case info.Size() != want.Size:
		v.wrong(name, "has %d bytes, the manifest lists %d", info.Size(), want.Size)
	case sum != want.SHA256:
		v.wrong(name, "has other content than the manifest lists: its sha256 is %s, listed is %s", sum, want.SHA256)
	case is != should && should == 0:
		v.wrong(name, "is executable, and the manifest lists it as not executable")
	case is != should:
		v.wrong(name, "is not executable, and the manifest lists it as executable")
	}
}
