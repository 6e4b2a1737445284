package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// mountMaterial mounts the further material read-only. It also creates the directory for the
// unchanged base, which showBase fills.
func (w *workspace) mountMaterial(ctx context.Context, contexts []Context) error {
	b := w.layout.Base()
	if b != nil {
		w.unfilled = BaseDir(b)
		dir := filepath.Join(w.dir, w.unfilled)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a workspace: %w", err)
		}
		if err := os.Chmod(dir, 0o555); err != nil { // the mode marks a mount for the tools
			return fmt.Errorf("make a workspace: %w", err)
		}
	}
	lent := make(chan *snapshot.Loan, len(contexts))
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range contexts {
		group.Go(func() error {
			loan, err := w.lendBase(ctx, c.Files, path.Join(ContextDir(b), c.Name))
			if err == nil {
				lent <- loan
			}
			return err
		})
	}
	err := group.Wait()
	close(lent)
	for loan := range lent {
		w.loans = append(w.loans, loan)
	}
	if err != nil {
		return err
	}
	if len(contexts) > 0 {
		return os.Chmod(filepath.Join(w.dir, ContextDir(b)), 0o555)
	}
	return nil
}

// lendBase makes a read-only copy or mount of a base in the workspace.
func (w *workspace) lendBase(ctx context.Context, files *artifact.Base, name string) (*snapshot.Loan, error) {
	dir := filepath.Join(w.dir, name)
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		var loan *snapshot.Loan
		if w.whole != nil {
			loan, err = w.ports.Trees.MountIn(ctx, w.whole, files, name)
		} else {
			loan, err = w.ports.Trees.Lend(ctx, files, dir, true)
		}
		if err == nil {
			return loan, nil
		}
	}
	return nil, fmt.Errorf("make a workspace: %w", err)
}

// showBase copies the unchanged base into its directory unless that was done before.
func (w *workspace) showBase(ctx context.Context) error {
	if w.unfilled == "" {
		return nil
	}
	if err := filelock.RemoveTree(filepath.Join(w.dir, w.unfilled)); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	loan, err := w.lendBase(ctx, w.layout.Base(), w.unfilled)
	if err != nil {
		return err
	}
	w.unfilled, w.loans = "", slices.Insert(w.loans, 0, loan)
	return nil
}

func (w *workspace) runTool(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if w.unfilled != "" && w.seesBase(call) {
		if err := w.showBase(ctx); err != nil {
			return loop.Output{}, err
		}
	}
	if !w.worked {
		for _, answer := range w.answers {
			answer.Untouched()
		}
		w.worked = true
	}
	out, err := w.tools.Run(ctx, call)
	if err != nil {
		out.Files = nil
	}
	w.touched.addFiles(out.Files)
	if err == nil && out.Files == nil {
		err = w.putBack(ctx)
	}
	return out, err
}

// putBack restores read-only copies that a call has renamed or removed. Only the sandbox level
// full prevents such calls.
func (w *workspace) putBack(ctx context.Context) error {
	for i, loan := range w.loans {
		name, err := filepath.Rel(w.dir, loan.Dir())
		if err != nil || name == "." || loan.InPlace() {
			continue
		}
		if loan.Mounted() {
			err = loan.GiveBack(ctx, "") // else the mount would be in the way
		}
		if err := errors.Join(err, w.clearWay(name)); err != nil {
			return fmt.Errorf("restore %s in the workspace: %w", name, err)
		}
		if loan.PutBack() {
			continue
		}
		if loan, err = w.lendBase(ctx, loan.Base(), name); err != nil {
			return err
		}
		w.loans[i] = loan
	}
	return nil
}

// clearWay removes a path of the workspace, and any link or file that is in the place of one
// of its parent directories.
func (w *workspace) clearWay(name string) error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for at := range name {
		if name[at] != '/' {
			continue
		}
		info, err := root.Lstat(name[:at])
		if err == nil && !info.IsDir() {
			err = root.Remove(name[:at])
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return filelock.RemoveTree(filepath.Join(w.dir, name))
}

// seesBase reports whether a call may read the unchanged base. File tools read only the files
// that their arguments name; any other tool may read everything.
func (w *workspace) seesBase(call llm.ToolCall) bool {
	var arguments struct{ Path, From string }
	switch {
	case call.Name == AdoptFiles:
		return false
	case !slices.ContainsFunc(llm.FileTools(), func(t llm.Tool) bool { return t.Name == call.Name }):
		return true
	case json.Unmarshal([]byte(call.Arguments), &arguments) != nil:
		return false // the tool refuses it
	}
	return slices.ContainsFunc([]string{arguments.Path, arguments.From}, func(name string) bool { return w.leadsToBase(name) })
}

// leadsToBase reports whether a path is in the unchanged base or passes through a link.
func (w *workspace) leadsToBase(name string) bool {
	if name == "" || !filepath.IsLocal(name) {
		return false
	}
	name = path.Clean(name)
	if strings.HasPrefix(strings.ToLower(name)+"/", strings.ToLower(w.unfilled)+"/") {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		if info, err := os.Lstat(filepath.Join(w.dir, name)); err == nil && info.Mode().Type() == fs.ModeSymlink {
			return true
		}
	}
	return false
}

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

// displayDirs returns the directories of the workspace, besides peers/, that only display files.
func (s Spec) displayDirs() []string {
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

// maxDiffed is the size, in bytes, up to which a peer's patch includes the contents of a file.
const maxDiffed = 1 << 20

// diffOf returns the change of an answer as a patch; dir has the files that the answer added or
// changed. The patch names binary files and those above maxDiffed without their contents, and
// leaves out files meant only for agents.
func (w *workspace) diffOf(ctx context.Context, c artifact.Change, dir string) ([]byte, error) {
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
