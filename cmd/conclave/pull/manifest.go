package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/base"
)

// manifest compares the workspace in dir with its manifest and returns the manifest's hash, or ""
// if dir has no manifest. It also compares partial/, the files of a step without an action.
func (v *verifier) manifest(ctx context.Context, dir string) string {
	v.workspace(ctx, dir+"partial")
	return v.workspace(ctx, dir+"workspace")
}

// workspace compares a directory with the manifest next to it.
func (v *verifier) workspace(ctx context.Context, dir string) string {
	name := dir + ".json"
	data := v.read(ctx, name)
	if data == nil {
		return ""
	}
	hash := artifact.SumOf(data)
	var m artifact.Manifest
	if !v.decode(name, data, &m) {
		return hash
	}
	c := artifact.Change{Files: m.Files}
	if v.base != nil && !strings.HasPrefix(name, "final/") {
		c = m.Since(v.base)
		hash, _ = c.Hash() // hash of the change, as it was committed
	}
	c.Base = v.base.Hash()
	if err := c.Check(v.base); err != nil {
		v.report(name, "is not a manifest: %v", err)
		return hash
	}
	v.found.Manifests++
	v.files(ctx, dir, m)
	return hash
}

// readBase reads the manifest of the session's base from the copy.
func (v *verifier) readBase(ctx context.Context) {
	var m artifact.Manifest
	data := v.read(ctx, baseManifest)
	if data == nil || !v.decode(baseManifest, data, &m) {
		return
	}
	claim := sessionClaim
	if _, err := v.root.Lstat(claim); err != nil {
		claim = pipelineClaim
	}
	var named artifact.Material
	if claimed := v.read(ctx, claim); claimed == nil || !v.decode(claim, claimed, &named) {
		return
	}
	hash, err := base.Hash(m)
	if err == nil && base.Reference(hash) != named.Base {
		err = fmt.Errorf("%s names %s, and this is %s", claim, named.Base, base.Reference(hash))
	}
	if err == nil {
		v.base, err = artifact.NewBase(hash, m, nil)
	}
	if err != nil {
		v.report(baseManifest, "cannot be used: %v", err)
	}
}

// files compares a directory with a manifest. Unlike a workspace, a copy has no ignored files.
func (v *verifier) files(ctx context.Context, dir string, m artifact.Manifest) {
	missing := make(map[string]artifact.File, len(m.Files))
	for _, f := range m.Files {
		missing[f.Path] = f
	}
	switch info, err := v.root.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist): // every file is missing
	case err != nil:
		v.report(dir, "cannot be read: %v", cause(err))
	case !info.IsDir():
		v.report(dir, "is not a directory") // WalkDir would follow a link
	default:
		_ = fs.WalkDir(v.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return fs.SkipAll
			case err != nil:
				v.report(name, "cannot be read: %v", cause(err))
				return nil
			case e.IsDir():
				if f := missing[strings.TrimPrefix(name, dir+"/")]; f.Dir {
					delete(missing, f.Path)
				}
				return nil
			}
			relative := strings.TrimPrefix(name, dir+"/")
			if f, listed := missing[relative]; listed {
				v.file(name, f)
			} else {
				v.report(name, "is extra: no manifest lists it")
			}
			delete(missing, relative)
			return nil
		})
	}
	for _, relative := range slices.Sorted(maps.Keys(missing)) {
		v.report(dir+"/"+relative, "is missing: the manifest lists it")
	}
}

// file compares a file or link with its entry in the manifest.
func (v *verifier) file(name string, want artifact.File) {
	if want.Link != "" {
		if target, err := v.root.Readlink(name); err != nil || target != want.Link {
			v.report(name, "is not the link to %q that the manifest lists", want.Link)
		}
		return
	}
	const executable = 0o100
	info, err := v.root.Lstat(name)
	if err != nil {
		v.report(name, "cannot be read: %v", cause(err))
		return
	}
	sum, err := fileSum(v.root, name)
	is, listed := uint32(info.Mode().Perm())&executable, want.Mode&executable
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.report(name, "is not the regular file that the manifest lists")
	case err != nil:
		v.report(name, "cannot be read: %v", cause(err))
	case info.Size() != want.Size:
		v.report(name, "has %d bytes, the manifest lists %d", info.Size(), want.Size)
	case sum != want.SHA256:
		v.report(name, "has other content than the manifest lists: its sha256 is %s, listed is %s", sum, want.SHA256)
	case is > listed:
		v.report(name, "is executable, and the manifest lists it as not executable")
	case is < listed:
		v.report(name, "is not executable, and the manifest lists it as executable")
	}
}
