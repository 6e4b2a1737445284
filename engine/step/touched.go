package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"conclave/engine/files/artifact"
	"conclave/engine/text"
)

// touched are the files of a workspace that may have changed since its last scan.
type touched struct {
	unknown bool // any file may have changed
	files   map[string]bool

	// checked is set if the last scan was strict and found no problem.
	checked bool
}

// addFiles records the files that a call may have written. nil means that it may have written any file.
func (t *touched) addFiles(files []string) {
	t.unknown = t.unknown || files == nil
	for _, name := range files {
		if t.files == nil {
			t.files = map[string]bool{}
		}
		t.files[name] = true
	}
	t.checked = t.checked && files != nil && len(files) == 0
}

func (t *touched) isEmpty() bool { return !t.unknown && len(t.files) == 0 }

// mayLeaveProcess reports whether a tool may leave a process that writes at any time. This is assumed
// of tools whose calls cannot be repeated.
func (w *workspace) mayLeaveProcess() bool {
	for _, t := range w.tools.Tools() {
		w.lasted = w.lasted || t.Name != AdoptFiles && !w.ports.Tools.Repeatable(t.Name)
	}
	return w.lasted
}

// beginRecord starts a new record after a scan. The scan has found the changes made before it began.
func (w *workspace) beginRecord(checked bool) {
	w.touched = touched{unknown: w.mayLeaveProcess()}
	w.touched.checked = checked && !w.touched.unknown
}

// scanChanges stores the changes since the last scan. It skips files that no answer can have; the
// agent is told about them when it answers.
func (w *workspace) scanChanges(ctx context.Context) error {
	if w.touched.isEmpty() {
		return nil
	}
	var delta artifact.Delta
	var err error
	if w.touched.unknown {
		delta, err = w.copy.ScanStorable(ctx)
	} else {
		delta, err = w.copy.ScanFiles(ctx, slices.Collect(maps.Keys(w.touched.files)))
	}
	if err = cmp.Or(err, w.verifyMount(delta)); err != nil {
		return err
	}
	w.unkept = w.unkept.Join(delta)
	w.beginRecord(false)
	return nil
}

// verifyMount returns an error if the files below the step's mount have changed, because then the changes
// that a scan has found may not be those of the step.
func (w *workspace) verifyMount(delta artifact.Delta) error {
	if w.whole == nil {
		return nil
	}
	for _, f := range delta.Changed {
		if w.touched.unknown || !w.touched.files[f.Path] {
			return w.whole.Intact()
		}
	}
	if len(delta.Removed) > 0 {
		return w.whole.Intact()
	}
	return nil
}

// takeChanges stores and returns the changes of the workspace since the last call.
func (w *workspace) takeChanges(ctx context.Context) (artifact.Delta, error) {
	if err := w.scanChanges(ctx); err != nil {
		return artifact.Delta{}, err
	}
	delta := w.unkept
	w.unkept = artifact.Delta{}
	return delta, nil
}

// storeManifest stores the files that would belong to an answer now, and returns the hash of their manifest.
func (w *workspace) storeManifest(ctx context.Context) (string, error) {
	if err := w.scanChanges(ctx); err != nil {
		return "", err
	}
	return w.copy.Change().Hash()
}

// checkFiles stores the workspace as an answer would. It returns the problem if the files
// themselves make that impossible.
func (w *workspace) checkFiles(ctx context.Context) (problem, err error) {
	if w.touched.checked {
		return nil, nil
	}
	delta, err := w.copy.Scan(ctx)
	if err = cmp.Or(err, w.verifyMount(delta)); err == nil {
		// If the answer is withdrawn, the next entry has these changes.
		w.unkept = w.unkept.Join(delta)
		w.beginRecord(true)
		return nil, nil
	}
	if limit, ok := errors.AsType[*artifact.LimitError](err); ok {
		return limit, nil
	}
	if name, ok := errors.AsType[*artifact.NameError](err); ok {
		return name, nil
	}
	return nil, err
}

// sealChange stores the change of the workspace for an answer.
func (w *workspace) sealChange(ctx context.Context) (artifact.Change, string, error) {
	if !w.touched.checked {
		delta, err := w.copy.Scan(ctx)
		if err = cmp.Or(err, w.verifyMount(delta)); err != nil {
			return artifact.Change{}, "", err
		}
	}
	return w.copy.SealScanned(ctx)
}

// partialFile is the manifest of the files of a step that ended without an action. In a
// directory, the files are stored beside it.
const (
	partialFile = "partial.json"
	partialDir  = "partial"
)

// filesGivenBack tells an agent of the files of its earlier step.
const filesGivenBack = "Your workspace has the files of your earlier turn, which ended without an action."

// memoryDir is the directory of an agent's notes to itself and to others.
const memoryDir = "memory/"

// maxNotes bounds, in bytes, the notes of an earlier step that its agent is shown.
const maxNotes = 8 << 10

// givenBack returns the text that tells an agent about the files of its earlier step and quotes its notes.
func (a *attempt) givenBack() string {
	var b strings.Builder
	b.WriteString(filesGivenBack)
	left := maxNotes
	for _, f := range a.journal.left.Changed {
		if !strings.HasPrefix(f.Path, memoryDir) || f.Link != "" || left == 0 {
			continue
		}
		content, err := a.ws.readFile(f.Path)
		if err != nil || !utf8.Valid(content) {
			continue // it is in the workspace, in any case
		}
		notes, _ := text.Head(text.Sanitize(string(content)), left)
		left -= len(notes)
		fmt.Fprintf(&b, "\n\nYour notes in %s:\n\n%s", f.Path, notes)
	}
	return b.String()
}

// FilesPath returns, for people, the path of the files at a key. A directory has the files
// there; a bucket has only their manifest.
func FilesPath(store artifact.Store, key string) string {
	if _, local := store.(*artifact.Dir); local {
		return store.URL(key)
	}
	return store.URL(key + ".json")
}

// leavePartial stores the manifest of the files of a step without an action. It returns the
// manifest's path for last_action.json, or nil if there are no files.
func leavePartial(ctx context.Context, store artifact.Store, s Spec, r Result) (*string, error) {
	c := r.Partial.Change(s.Layout.Base())
	if c.Empty() || c.Check(s.Layout.Base()) != nil {
		return nil, nil
	}
	dir := s.Dir(r.Step)
	path := FilesPath(store, dir+partialDir)
	if _, local := store.(*artifact.Dir); local {
		if err := c.Tree(s.Layout.Base()).Project(ctx, store, s.Layout, dir+partialDir); err != nil {
			return nil, fmt.Errorf("write the files of %s: %w", dir, err)
		}
	}
	return &path, WriteDocument(ctx, store, Document{Key: dir + partialFile, Body: c, Replace: true})
}

// keepCut adds the work that a cancellation or a deadline has cut short to the result: of a batch of calls the
// results of those that have ended, and all files that are not stored. The journal gets neither, because
// a step that goes on runs the batch again. For other causes another attempt follows.
func (a *attempt) keepCut(ctx context.Context) {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return
	}
	if a.cut != nil && len(a.cut.Messages) > 0 {
		_ = a.journal.addLine(Line{Time: artifact.Timestamp(a.ports.Now()), Entry: *a.cut})
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer stop()
	if a.cut != nil { // a call that was cut short does not name its files
		a.ws.touched.addFiles(nil)
	}
	if changed, err := a.ws.takeChanges(ctx); err == nil {
		a.journal.files = a.journal.files.Join(changed)
	}
}

// leftFiles returns the files that an earlier step without an action has left. That step is
// the one to resume, if it has no journal, or else FilesFrom.
func (a *attempt) leftFiles(ctx context.Context) (artifact.Delta, error) {
	token := cmp.Or(a.spec.Attempt.ResumeFrom, a.spec.Attempt.FilesFrom)
	for below := a.result.Step; token != ""; {
		n, claim, err := a.claimOf(ctx, token, below)
		if n == 0 || err != nil {
			return artifact.Delta{}, err
		}
		c, err := artifact.ReadJSON[artifact.Change](ctx, a.ports.Store, a.spec.Dir(n)+partialFile)
		if err == nil {
			return c.Delta(), nil
		}
		if !errors.Is(err, artifact.ErrNotFound) {
			return artifact.Delta{}, fmt.Errorf("read the files of the earlier step: %w", err)
		}
		// The files of a step that was cut off are in its journal only.
		records, err := readJournal(ctx, a.ports.Store, a.spec.Layout, token)
		if err != nil || len(records) > 0 {
			return filesOf(records), err
		}
		token, below = claim.ResumeFrom, n
	}
	return artifact.Delta{}, nil
}

// filesOf returns the changed files of a journal.
func filesOf(records []record) artifact.Delta {
	var changed artifact.Delta
	for _, r := range records {
		changed = changed.Join(r.Files)
	}
	return changed
}
