package artifact

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Snapshot stores the files of a workspace as blobs, and its manifest as one
// more, whose hash it returns ("" if there are no files). Links that leave the
// workspace, sockets, FIFOs, devices and unreadable files are left out with a
// warning; peers/ and what is ignored are left out without one.
//
// Nothing that runs may write to the directory meanwhile: a file that changes
// its size while it is read is an error. A workspace above the limits fails
// with a *LimitError, one with a name that no key can hold with a *NameError.
// Blobs stored before a failure stay; they are found again.
func Snapshot(ctx context.Context, store Store, layout Layout, dir string) (Manifest, string, []Warning, error) {
	w := OpenWorkingCopy(store, layout, dir, "")
	m, hash, err := w.Seal(ctx)
	return m, hash, w.Warnings(), err
}

// upload stores the content of a workspace's files.
type upload struct {
	store   Store
	layout  Layout
	root    *os.Root
	scratch string          // where spooled copies lie
	have    map[string]bool // content that is there already
	sums    sync.Map        // content that one of the files brings
}

// run completes the files that w found; those that cannot be opened go.
func (u *upload) run(ctx context.Context, w *walk) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	unopened := make([]error, len(w.files))
	for i := range w.files {
		if w.files[i].Link != "" {
			continue
		}
		group.Go(func() error {
			f, err := openRegular(u.root, w.files[i].Path)
			if err != nil {
				unopened[i] = err
				return nil
			}
			defer f.Close()
			return u.file(ctx, f, &w.files[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	kept := make([]File, 0, len(w.files))
	for i, f := range w.files {
		if unopened[i] == nil {
			kept = append(kept, f)
		} else if err := w.leftOut(f.Path, unopened[i]); err != nil {
			return err
		}
	}
	w.files = kept
	return nil
}

func (u *upload) file(ctx context.Context, f *os.File, file *File) error {
	content, err := spool(ctx, f, file.Size, u.scratch)
	if err != nil {
		return fmt.Errorf("read %q: %w", file.Path, err)
	}
	defer content.Close()
	file.SHA256 = content.sum
	if _, twice := u.sums.LoadOrStore(content.sum, true); twice || u.have[content.sum] {
		return nil
	}
	key := u.layout.Blob(content.sum)
	there, err := u.store.Exists(ctx, key)
	if err == nil && !there {
		err = u.store.Put(ctx, key, content.body)
	}
	if err != nil {
		return fmt.Errorf("store content of %q: %w", file.Path, err)
	}
	return nil
}
