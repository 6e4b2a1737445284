package step

import (
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

	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/builtin"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scratch"
)

// mountMaterial mounts the further material read-only. It also creates the directory for the
// unchanged base, which showBase fills.
func (w *workspace) mountMaterial(ctx context.Context, contexts []Context) error {
	b := w.layout.Base()
	if b != nil {
		w.unfilled = BaseDir(b)
		dir := filepath.Join(w.dir, w.unfilled)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a workspace: %w", err)
		}
		if err := os.Chmod(dir, 0o555); err != nil { // the mode marks a mount for the tools
			return fmt.Errorf("making a workspace: %w", err)
		}
	}
	lent := make(chan *base.Loan, len(contexts))
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range contexts {
		group.Go(func() error {
			loan, err := w.lend(ctx, c.Files, path.Join(ContextDir(b), c.Name))
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

// lend makes a read-only copy or mount of a base in the workspace.
func (w *workspace) lend(ctx context.Context, files *artifact.Base, name string) (*base.Loan, error) {
	dir := filepath.Join(w.dir, name)
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		var loan *base.Loan
		if w.whole != nil {
			loan, err = w.ports.Trees.MountIn(ctx, w.whole, files, name)
		} else {
			loan, err = w.ports.Trees.Lend(ctx, files, dir, true)
		}
		if err == nil {
			return loan, nil
		}
	}
	return nil, fmt.Errorf("making a workspace: %w", err)
}

// showBase copies the unchanged base into its directory unless that was done before.
func (w *workspace) showBase(ctx context.Context) error {
	if w.unfilled == "" {
		return nil
	}
	if err := scratch.RemoveTree(filepath.Join(w.dir, w.unfilled)); err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	loan, err := w.lend(ctx, w.layout.Base(), w.unfilled)
	if err != nil {
		return err
	}
	w.unfilled, w.loans = "", slices.Insert(w.loans, 0, loan)
	return nil
}

// run runs a tool call and records the files that the call may have written.
func (w *workspace) run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
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
	w.touched.add(out.Files)
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
			return fmt.Errorf("restoring %s in the workspace: %w", name, err)
		}
		if loan.PutBack() {
			continue
		}
		if loan, err = w.lend(ctx, loan.Base(), name); err != nil {
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
	return scratch.RemoveTree(filepath.Join(w.dir, name))
}

// seesBase reports whether a call may read the unchanged base. File tools read only the files
// that their arguments name; any other tool may read everything.
func (w *workspace) seesBase(call llm.ToolCall) bool {
	var arguments struct{ Path, From string }
	switch {
	case call.Name == AdoptFiles:
		return false
	case !slices.ContainsFunc(builtin.Files(), func(t llm.Tool) bool { return t.Name == call.Name }):
		return true
	case json.Unmarshal([]byte(call.Arguments), &arguments) != nil:
		return false // the tool refuses it
	}
	for _, name := range []string{arguments.Path, arguments.From} {
		if w.leadsToBase(name) {
			return true
		}
	}
	return false
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
