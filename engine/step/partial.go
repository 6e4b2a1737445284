package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"conclave/engine/artifact"
	"conclave/engine/text"
)

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

// givenBack returns the text that tells an agent about the files of its earlier step and
// quotes its notes.
func (a *attempt) givenBack() string {
	var b strings.Builder
	b.WriteString(filesGivenBack)
	left := maxNotes
	for _, f := range a.journal.left.Changed {
		if !strings.HasPrefix(f.Path, memoryDir) || f.Link != "" || left == 0 {
			continue
		}
		content, err := a.ws.read(f.Path)
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
			return nil, fmt.Errorf("writing the files of %s: %w", dir, err)
		}
	}
	return &path, write(ctx, store, Document{Key: dir + partialFile, Body: c, Replace: true})
}

// keepCut adds to the result the calls of a batch that have ended and that a cancellation or a deadline has cut
// short: the results of the calls that have ended, and the files. The journal gets neither, because a
// step that goes on runs the batch again. For other causes another attempt follows.
func (a *attempt) keepCut(ctx context.Context) {
	cause := context.Cause(ctx)
	if a.cut == nil || !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return
	}
	if len(a.cut.Messages) > 0 {
		_ = a.journal.transcribe(Line{Time: artifact.Timestamp(a.ports.Now()), Entry: *a.cut})
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	a.ws.touched.add(nil) // a call that was cut short does not name its files
	if changed, err := a.ws.changes(ctx); err == nil {
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
			return artifact.Delta{}, fmt.Errorf("reading the files of the earlier step: %w", err)
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
