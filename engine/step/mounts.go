package step

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"conclave/engine/artifact"
	"conclave/engine/patch"
	"conclave/engine/text"
)

// ownDir is the directory for mounts whose usual names exist in the base.
const ownDir = ".conclave"

// BaseDir returns the directory of the unchanged base in a workspace.
func BaseDir(b *artifact.Base) string { return mountName(b, "base") }

// ContextDir returns the directory of further material in a workspace.
func ContextDir(b *artifact.Base) string { return mountName(b, "context") }

// EvaluatorDir returns the directory of an evaluation in a workspace.
func EvaluatorDir(b *artifact.Base) string { return mountName(b, "evaluator") }

// MemoryDir returns the directory in a presenter's workspace that has the other agents'
// notes. The presenter's own memory is beside it.
func MemoryDir(b *artifact.Base) string { return path.Join(mountName(b, "memory"), "short_term") }

func mountName(b *artifact.Base, name string) string {
	if b.Has(name) {
		return path.Join(ownDir, name)
	}
	return name
}

// mounts returns the directories of the workspace, besides peers/, that only display files.
func (s Spec) mounts() []string {
	var mounts []string
	if b := s.Layout.Base(); b != nil {
		mounts = append(mounts, BaseDir(b))
	}
	if len(s.Shown.Context) > 0 {
		mounts = append(mounts, ContextDir(s.Layout.Base()))
	}
	for _, p := range s.Shown.Papers {
		mounts = append(mounts, p.Dir)
	}
	return mounts
}

// showPapers writes papers to their directories, which are read-only.
func (w *workspace) showPapers(papers []Paper) error {
	for _, p := range papers {
		name := filepath.Join(w.dir, p.Dir, p.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(p.Text), 0o444); err != nil {
			return err
		}
	}
	for _, p := range papers {
		dir := filepath.Join(w.dir, p.Dir)
		for at := filepath.Join(dir, filepath.Dir(p.Name)); ; at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o555); err != nil {
				return err
			}
			if at == dir {
				break
			}
		}
	}
	return nil
}

// maxDiffed is the size, in bytes, up to which a peer's patch includes the contents of a
// file.
const maxDiffed = 1 << 20

// diff returns the change of an answer as a patch; dir has the files that the answer added or
// changed. The patch names binary files and those above maxDiffed without their contents, and
// leaves out files meant only for agents.
func (w *workspace) diff(ctx context.Context, c artifact.Change, dir string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var before, after []patch.File
	var out bytes.Buffer
	c = c.Deliverable(w.layout.Base())
	for _, f := range c.Files {
		old, found := w.layout.Base().File(f.Path)
		if large := max(f.Size, old.Size); large > maxDiffed {
			fmt.Fprintf(&out, "%s was %s; it has %s and is not shown\n", patch.Quote(f.Path), verb(found), text.Size(large))
			continue
		}
		if found {
			if before, err = w.appendOld(ctx, before, old); err != nil {
				return nil, err
			}
		}
		if !f.Dir {
			file, err := patch.ReadFile(root, f.Path)
			if err != nil {
				return nil, err
			}
			after = append(after, file)
		}
	}
	for _, name := range c.Removed {
		old, _ := w.layout.Base().File(name)
		if old.Size > maxDiffed {
			fmt.Fprintf(&out, "%s was deleted; it had %s and is not shown\n", patch.Quote(name), text.Size(old.Size))
			continue
		}
		if before, err = w.appendOld(ctx, before, old); err != nil {
			return nil, err
		}
	}
	changes := patch.Changes(ctx, before, after)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	err = patch.Write(&out, changes, patch.Style{Brief: true})
	return out.Bytes(), err
}

func verb(found bool) string {
	if found {
		return "changed"
	}
	return "added"
}

// appendOld appends a file of the base with its content.
func (w *workspace) appendOld(ctx context.Context, files []patch.File, f artifact.File) ([]patch.File, error) {
	switch {
	case f.Dir:
		return files, nil
	case f.Link != "":
		return append(files, patch.File{Path: f.Path, Mode: patch.Link, Content: []byte(f.Link)}), nil
	}
	mode := patch.Regular
	if f.Mode&0o100 != 0 {
		mode = patch.Executable
	}
	content, err := artifact.ReadFile(ctx, w.store, w.layout, f)
	return append(files, patch.File{Path: f.Path, Mode: mode, Content: content}), err
}
