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

// upload stores the content of a workspace's files.
type upload struct {
	store    Store
	layout   Layout
	root     *os.Root
	scratch  string          // directory of spooled copies
	stored   map[string]bool // hashes of content that the session has
	uploaded sync.Map        // hashes of content that this upload stores
	buffers  sync.Pool       // *[]byte, for small contents that were stored

	mu    sync.Mutex
	small []Content // contents not stored yet
	bytes int       // bytes of small
}

// Contents of at most maxUnasked bytes are stored together if there are many, in parts of packBytes.
const (
	minTogether = 32
	packBytes   = 8 << 20
)

// storeFiles stores the files of w and sets their hashes. It removes the files from w that cannot be opened.
func (u *upload) storeFiles(uploading context.Context, w *walk) error {
	group, ctx := errgroup.WithContext(uploading)
	group.SetLimit(parallel)
	unopened := make([]error, len(w.files))
	for i := range w.files {
		if !w.files[i].isRegular() {
			continue
		}
		group.Go(func() error {
			f, err := openListed(u.root, w.files[i].Path)
			if err != nil {
				unopened[i] = err
				return nil
			}
			defer f.Close()
			return u.storeFile(ctx, f, &w.files[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := u.storeRest(uploading); err != nil {
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

func (u *upload) storeFile(ctx context.Context, f *os.File, file *File) error {
	buffer, _ := u.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	content, err := spoolFile(ctx, f, file.Size, u.scratch, buffer)
	if err != nil {
		return fmt.Errorf("read %q: %w", file.Path, err)
	}
	defer content.Close()
	file.SHA256 = content.sum
	if _, twice := u.uploaded.LoadOrStore(content.sum, true); twice || u.stored[content.sum] || u.layout.base.HasContent(content.sum) {
		u.buffers.Put(buffer)
		return nil
	}
	if file.Size <= maxUnasked {
		return u.addSmall(ctx, Content{SHA256: content.sum, Data: content.data})
	}
	if err := putBlob(ctx, u.store, u.layout.Blob(content.sum), content.body, file.Size); err != nil {
		return fmt.Errorf("store content of %q: %w", file.Path, err)
	}
	return nil
}

// addSmall collects a small content, and stores those collected once they are a full part.
func (u *upload) addSmall(ctx context.Context, c Content) error {
	u.mu.Lock()
	u.small, u.bytes = append(u.small, c), u.bytes+len(c.Data)
	var full []Content
	if u.bytes >= packBytes {
		full, u.small, u.bytes = u.small, nil, 0
	}
	u.mu.Unlock()
	return u.storeTogether(ctx, full)
}

func (u *upload) storeTogether(ctx context.Context, contents []Content) error {
	if len(contents) == 0 {
		return nil
	}
	if err := u.store.PutBlobs(ctx, u.layout.Blob(""), contents); err != nil {
		return fmt.Errorf("store %d contents: %w", len(contents), err)
	}
	return nil
}

// storeRest stores the remaining small contents, each as its own object if they are few.
func (u *upload) storeRest(ctx context.Context) error {
	if len(u.small) >= minTogether {
		return u.storeTogether(ctx, u.small)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, c := range u.small {
		group.Go(func() error {
			if err := u.store.Put(ctx, u.layout.Blob(c.SHA256), bytes.NewReader(c.Data)); err != nil {
				return fmt.Errorf("store content %s: %w", c.SHA256, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// spoolMemory is the size, in bytes, up to which a copy stays in memory.
const spoolMemory = 1 << 20

// spooled is a private copy of a file with its hash, so that the hashed bytes are
// stored even if the file changes.
type spooled struct {
	sum  string
	body io.ReadSeeker
	data []byte   // content of a copy in memory
	temp *os.File // nil if the copy is in memory
}

// spoolFile copies a file of the given size, a small one to the buffer, which may grow, and a large
// one to a temporary file in dir. A file of another size is an error.
func spoolFile(ctx context.Context, f io.Reader, size int64, dir string, buffer *[]byte) (*spooled, error) {
	s := &spooled{}
	// One byte more, to notice that the file grew.
	n, err := s.copyFrom(contextReader(ctx, io.LimitReader(f, size+1)), size, dir, buffer)
	if err == nil && n != size {
		err = fmt.Errorf("it changed while it was read (%d bytes expected): stop the process that writes to it", size)
	}
	if err == nil {
		_, err = s.body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *spooled) copyFrom(src io.Reader, size int64, dir string, buffer *[]byte) (n int64, err error) {
	if size <= spoolMemory {
		if int64(cap(*buffer)) <= size {
			*buffer = make([]byte, size+1)
		}
		data := (*buffer)[:size+1]
		read, err := io.ReadFull(src, data)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		s.data = data[:read]
		s.body, s.sum = bytes.NewReader(s.data), SumOf(s.data)
		return int64(read), err
	}
	if s.temp, err = os.CreateTemp(dir, "conclave-snapshot-*"); err != nil {
		return 0, err
	}
	s.body = s.temp
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(s.temp, hash), src)
	s.sum = hex.EncodeToString(hash.Sum(nil))
	return n, err
}

// Close removes the copy.
func (s *spooled) Close() error {
	if s.temp == nil {
		return nil
	}
	return errors.Join(s.temp.Close(), os.Remove(s.temp.Name()))
}
