package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

// spoolMemory is the size in bytes up to which a copy stays in memory.
const spoolMemory = 1 << 20

// spooled is a private copy of a file with its hash: what is stored is what was
// hashed, even if the file changes under our hands.
type spooled struct {
	sum  string
	body io.ReadSeeker
	temp *os.File // nil if the copy is in memory
}

// spool copies a file of the given size, a large one to a file in dir, or in the
// system's temporary directory if that is empty. Another size is an error.
func spool(ctx context.Context, f io.Reader, size int64, dir string) (*spooled, error) {
	s := &spooled{}
	// One byte more than there should be, to see that the file grew.
	n, sum, err := s.fill(contextReader(ctx, io.LimitReader(f, size+1)), size, dir)
	if err == nil && n != size {
		err = fmt.Errorf("it changed while it was read (%d bytes expected): stop what writes to it", size)
	}
	if err == nil {
		_, err = s.body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.sum = sum
	return s, nil
}

func (s *spooled) fill(src io.Reader, size int64, dir string) (int64, string, error) {
	hash := sha256.New()
	src = io.TeeReader(src, hash)
	if size <= spoolMemory {
		data, err := io.ReadAll(src)
		s.body = bytes.NewReader(data)
		return int64(len(data)), hex.EncodeToString(hash.Sum(nil)), err
	}
	temp, err := os.CreateTemp(dir, "conclave-snapshot-*")
	if err != nil {
		return 0, "", err
	}
	s.temp, s.body = temp, temp
	n, err := io.Copy(temp, src)
	return n, hex.EncodeToString(hash.Sum(nil)), err
}

// Close removes the copy.
func (s *spooled) Close() error {
	if s.temp == nil {
		return nil
	}
	return errors.Join(s.temp.Close(), os.Remove(s.temp.Name()))
}
