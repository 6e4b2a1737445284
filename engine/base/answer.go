package base

import (
	"context"
	"fmt"
	"time"

	"conclave/engine/artifact"
)

// minLent is the number of files of an answer from which its copies are lent again. Fewer are
// written in less time than it takes to keep them.
const minLent = 32

// LendAnswer makes the read-only directory dir, which must not exist, with the files of an
// answer's change, which has the given hash. Its contents come from store.
func (t *Trees) LendAnswer(ctx context.Context, store artifact.Store, layout artifact.Layout, hash string, c artifact.Change, dir string) (*Loan, error) {
	l := &Loan{trees: t, files: sealed(artifact.Manifest{Files: c.Files}), dir: dir, readOnly: true}
	l.rewrite = func(ctx context.Context, dir string, files []artifact.File) error {
		return artifact.Manifest{Files: files}.Restore(ctx, store, layout, dir, false)
	}
	if len(c.Files) >= minLent {
		l.key = "answer " + hash
		if spare := t.lendSpare(l.key, dir, true); spare != nil {
			spare.rewrite = l.rewrite
			return spare, nil
		}
	}
	err := l.rewrite(ctx, dir, l.files.Files)
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		return nil, fmt.Errorf("copy answer %s to %s: %w", hash, dir, err)
	}
	return l, nil
}

// Moved tells the loan that its directory has been renamed.
func (l *Loan) Moved(dir string) error {
	l.dir = dir
	return l.locate()
}

// Untouched tells the loan that nobody has written to its files so far, so that their identities
// show every later change.
func (l *Loan) Untouched() { l.lent = time.Now() }
