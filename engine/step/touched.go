package step

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"conclave/engine/artifact"
)

// touched are the files of a workspace that may have changed since its last scan.
type touched struct {
	unknown bool // any file may have changed
	files   map[string]bool

	// checked is set if the last scan was strict and found no problem.
	checked bool
}

// add records the files that a call may have written. nil means that it may have written any
// file.
func (t *touched) add(files []string) {
	t.unknown = t.unknown || files == nil
	for _, name := range files {
		if t.files == nil {
			t.files = map[string]bool{}
		}
		t.files[name] = true
	}
	t.checked = t.checked && files != nil && len(files) == 0
}

// none reports whether no file has changed.
func (t *touched) none() bool { return !t.unknown && len(t.files) == 0 }

// lasting reports whether a tool may leave a process that writes at any time. This is assumed
// of tools whose calls cannot be repeated.
func (w *workspace) lasting() bool {
	if w.ports.Repeatable == nil || w.lasted {
		return w.lasted
	}
	for _, t := range w.tools.Tools() {
		w.lasted = w.lasted || t.Name != AdoptFiles && !w.ports.Repeatable(t.Name)
	}
	return w.lasted
}

// scanned starts a new record after a scan. The scan has found the changes made before it
// began.
func (w *workspace) scanned(checked bool) {
	w.touched = touched{unknown: w.lasting()}
	w.touched.checked = checked && !w.touched.unknown
}

// scan stores the changes since the last scan. It skips files that no answer can have; the
// agent is told about them when it answers.
func (w *workspace) scan(ctx context.Context) error {
	if w.touched.none() {
		return nil
	}
	var delta artifact.Delta
	var err error
	if w.touched.unknown {
		delta, err = w.copy.ScanStorable(ctx)
	} else {
		delta, err = w.copy.ScanFiles(ctx, slices.Collect(maps.Keys(w.touched.files)))
	}
	if err = cmp.Or(err, w.verify(delta)); err != nil {
		return err
	}
	w.unkept = w.unkept.Join(delta)
	w.scanned(false)
	return nil
}

// verify returns an error if the files below the step's mount have changed, because then the changes
// that a scan has found may not be those of the step.
func (w *workspace) verify(delta artifact.Delta) error {
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

// changes stores and returns the changes of the workspace since the last call.
func (w *workspace) changes(ctx context.Context) (artifact.Delta, error) {
	if err := w.scan(ctx); err != nil {
		return artifact.Delta{}, err
	}
	delta := w.unkept
	w.unkept = artifact.Delta{}
	return delta, nil
}

// manifest stores the files that would belong to an answer now, and returns the hash of their
// manifest.
func (w *workspace) manifest(ctx context.Context) (string, error) {
	if err := w.scan(ctx); err != nil {
		return "", err
	}
	return w.copy.Change().Hash()
}

// check stores the workspace as an answer would. It returns the problem if the files
// themselves make that impossible.
func (w *workspace) check(ctx context.Context) (problem, err error) {
	if w.touched.checked {
		return nil, nil
	}
	delta, err := w.copy.Scan(ctx)
	if err = cmp.Or(err, w.verify(delta)); err == nil {
		// If the answer is withdrawn, the next entry has these changes.
		w.unkept = w.unkept.Join(delta)
		w.scanned(true)
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

// seal stores the change of the workspace for an answer.
func (w *workspace) seal(ctx context.Context) (artifact.Change, string, error) {
	if !w.touched.checked {
		delta, err := w.copy.Scan(ctx)
		if err = cmp.Or(err, w.verify(delta)); err != nil {
			return artifact.Change{}, "", err
		}
	}
	return w.copy.SealScanned(ctx)
}
