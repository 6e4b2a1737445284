package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
)

// writeDocuments writes the files that people and other programs read, derived from the commit. It
// may be repeated, even by two attempts at once. Files that replace older ones are written last, so
// that their readers find the others.
func (a *attempt) writeDocuments(ctx context.Context) error {
	store := a.ports.Store
	documents, err := a.spec.Documents(a.result.Step, a.result.Commit)
	if err != nil {
		return fmt.Errorf("read the commit of %s: %w", a.dir(), err)
	}
	var replaced []Document
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return a.writeWorkspace(together) })
	group.Go(func() error { return a.writeTranscript(together) })
	if !a.spec.KeepsJournal {
		group.Go(func() error { a.forgetJournal(together); return nil })
	}
	for _, d := range documents {
		if d.Replace {
			replaced = append(replaced, d)
			continue
		}
		group.Go(func() error { return WriteDocument(together, store, d) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return writeAll(ctx, store, replaced)
}

// forgetJournal deletes the journal of a committed step, whose transcript is stored. Like Forget, it ignores
// failures. It lists the objects only if another attempt may have written some.
func (a *attempt) forgetJournal(ctx context.Context) {
	if !a.committed {
		Forget(ctx, a.ports.Store, a.spec.Layout.Journals(a.spec.Token))
		return
	}
	keys := make([]string, 0, a.journal.written)
	for seq := range a.journal.written {
		keys = append(keys, a.spec.Layout.Journal(a.spec.Token, seq+1))
	}
	if len(keys) == 1 {
		_ = a.ports.Store.Delete(ctx, keys[0])
		return
	}
	_ = a.ports.Store.DeleteAll(ctx, keys)
}

// writeWorkspace writes the manifest of the committed files. In a directory it also writes
// the files; in a bucket their contents are blobs.
func (a *attempt) writeWorkspace(ctx context.Context) error {
	if a.result.Commit.Manifest == "" {
		return nil
	}
	store, dir := a.ports.Store, a.dir()
	c, err := artifact.LoadChange(ctx, store, a.spec.Layout, a.result.Commit.Manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of %s: %w", dir, err)
	}
	a.result.Files = len(c.Files)
	var body any = c
	if _, local := store.(*artifact.Dir); local {
		tree := c.Tree(a.spec.Layout.Base())
		if err := tree.Project(ctx, store, a.spec.Layout, dir+"workspace/"); err != nil {
			return fmt.Errorf("write the workspace of %s: %w", dir, err)
		}
		body = tree
	}
	return WriteDocument(ctx, store, Document{Key: dir + "workspace.json", Body: body})
}

// maxTranscript is the size, in bytes, up to which a transcript is written directly to its place.
const maxTranscript = 1 << 20

// storeTranscript stores the transcript before the commit and returns its hash. It stores it
// as transcript.jsonl or, behind the journal, as a blob if it is large or another attempt has written that file.
func (a *attempt) storeTranscript(ctx context.Context) (hash string, err error) {
	transcript := a.journal.transcript.Bytes()
	a.transcribed = len(transcript) <= maxTranscript
	if a.transcribed {
		if err = a.ports.Store.Create(ctx, a.dir()+transcriptFile, transcript); !errors.Is(err, artifact.ErrExists) {
			return artifact.SumOf(transcript), err
		}
		a.transcribed = false
	}
	if err = a.journal.writeReply(ctx); err != nil {
		return "", err
	}
	return artifact.PutBlob(ctx, a.ports.Store, a.spec.Layout, transcript)
}

// atOnce is the time for a commit within which no other attempt can end the step: the server starts
// one, and a step is reckoned, only after a longer silence.
const atOnce = time.Second

// writeTranscript makes transcript.jsonl the one of the commit. It need not look if this attempt has
// created the file, is the first and has committed at once.
func (a *attempt) writeTranscript(ctx context.Context) error {
	if a.transcribed && a.committed && a.fresh && a.ports.Now().Sub(a.committing) < atOnce {
		return nil
	}
	return mendTranscript(ctx, a.ports.Store, a.spec.Layout, a.dir(), a.result.Commit)
}

// mendTranscript copies the blob of a commit's transcript, if there is one, to transcript.jsonl, which
// may be that of another attempt. Without a blob, the file is the one of the commit: whoever replaces
// it stores it as a blob first.
func mendTranscript(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string, c artifact.Commit) error {
	if c.Transcript == "" {
		return nil
	}
	there, err := store.Exists(ctx, layout.Blob(c.Transcript))
	if err == nil && there {
		err = store.Copy(ctx, layout.Blob(c.Transcript), dir+transcriptFile)
	}
	if err != nil {
		return fmt.Errorf("write the transcript of %s: %w", dir, err)
	}
	return nil
}

func writeAll(ctx context.Context, store artifact.Store, documents []Document) error {
	for _, d := range documents {
		if err := WriteDocument(ctx, store, d); err != nil {
			return err
		}
	}
	return nil
}

// WriteDocument writes a document, unless the existing file must be kept.
func WriteDocument(ctx context.Context, store artifact.Store, d Document) error {
	outdated, err := d.isOutdated(ctx, store)
	if err != nil {
		return fmt.Errorf("read %s before it is replaced: %w", d.Key, err)
	}
	if outdated {
		return nil
	}
	create := func() error { return artifact.CreateJSON(ctx, store, d.Key, d.Body) }
	if d.Text != "" {
		create = func() error { return store.Create(ctx, d.Key, []byte(d.Text)) }
	}
	if d.Replace {
		err = artifact.PutJSON(ctx, store, d.Key, d.Body)
	} else if err = create(); errors.Is(err, artifact.ErrExists) {
		err = nil // written before, from the same commit
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", d.Key, err)
	}
	return nil
}

// isOutdated reports whether the existing file is newer than the document, because attempts and
// steps may write in any order.
func (d Document) isOutdated(ctx context.Context, store artifact.Store) (bool, error) {
	if !d.Replace || d.Newer == nil {
		return false, nil
	}
	existing, err := artifact.ReadJSON[json.RawMessage](ctx, store, d.Key)
	switch {
	case errors.Is(err, artifact.ErrNotFound), Wraps[*artifact.MalformedError](err):
		return false, nil
	case err != nil:
		return false, err
	}
	return d.Newer(existing), nil
}
