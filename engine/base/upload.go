package base

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// Upload stores a directory as a base.
type Upload struct {
	Store artifact.Store
	Dir   string

	// Known is the file that remembers the hashes of unchanged files; empty for none.
	Known string

	// Git has the settings of git for the directory.
	Git artifact.Git

	// Secrets includes files that hold secrets.
	Secrets bool

	// Progress is called after each write; may be nil.
	Progress func(Progress)

	// Now is the clock.
	Now func() time.Time
}

// Progress is the state of an upload.
type Progress struct {
	Files, AllFiles int
	Bytes, AllBytes int64
	Sent            int64 // bytes of contents that the store did not have
}

// Uploaded is a stored directory.
type Uploaded struct {
	Hash    string             `json:"-"`
	Files   int                `json:"files"`      // number of files, links and empty directories
	Bytes   int64              `json:"bytes"`      // bytes of contents
	Sent    int64              `json:"sent_bytes"` // bytes of contents that the store did not have
	Secrets []string           `json:"secrets"`    // paths of files with secrets that are left out
	LeftOut []artifact.Warning `json:"left_out"`
}

// parallel is the number of packs that are read and stored at a time.
const parallel = 4

// Run uploads the directory. Limits are checked before anything is sent, and the manifest
// is written last. A directory above a limit fails with an *artifact.LimitError.
func (u Upload) Run(ctx context.Context) (Uploaded, error) {
	dir, err := filepath.Abs(u.Dir)
	if err != nil {
		return Uploaded{}, fmt.Errorf("upload %s: %w", u.Dir, err)
	}
	found, warnings, err := artifact.Find(ctx, dir, u.Git)
	if err != nil {
		return Uploaded{}, fmt.Errorf("upload %s: %w", u.Dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Uploaded{}, fmt.Errorf("upload %s: %w", u.Dir, err)
	}
	defer root.Close()
	r := &upload{
		Upload: u, root: root, found: found, known: readKnown(u.Known, u.Store.URL(Root)),
		skipped: make([]string, len(found)), began: u.Now(),
	}
	done, err := r.run(ctx)
	if err != nil {
		return Uploaded{}, fmt.Errorf("upload %s: %w", u.Dir, err)
	}
	done.LeftOut = append(warnings, done.LeftOut...)
	return done, nil
}

// upload is a running Upload.
type upload struct {
	Upload
	root    *os.Root
	found   []artifact.Found
	known   *known
	skipped []string // problem of each file that is left out
	began   time.Time
	writer  *writer

	mu       sync.Mutex
	progress Progress
}

// secret is the problem of a file that holds a secret.
const secret = "secret"

func (u *upload) run(ctx context.Context) (Uploaded, error) {
	release, err := hold(ctx, u.Store, u.Now)
	if err != nil {
		return Uploaded{}, err
	}
	defer release()
	u.writer = &writer{store: u.Store, now: u.Now, sent: u.sent}
	if done, stored, err := u.unchanged(ctx); stored || err != nil {
		return done, err
	}
	if err := u.store(ctx); err != nil {
		return Uploaded{}, err
	}
	done := u.uploaded()
	done.Hash, err = u.writer.finish(ctx, u.manifest())
	if err == nil {
		u.remember(done.Hash)
	}
	return done, err
}

// unchanged reports whether the store already has the base, and returns the result without
// sending anything. Otherwise it prepares to reuse the contents of the last base.
func (u *upload) unchanged(ctx context.Context) (done Uploaded, stored bool, err error) {
	u.recall()
	if u.known.Base == "" {
		return done, false, nil
	}
	if err := u.rehash(ctx); err != nil {
		return done, false, err
	}
	m := u.manifest()
	_, hash, err := encode(m)
	if err != nil {
		return done, false, err
	}
	err = use(ctx, u.Store, hash, u.Now())
	if _, missing := errors.AsType[*MissingError](err); !missing {
		done = u.uploaded()
		done.Hash = hash
		u.remember(hash)
		return done, err == nil, err
	}
	err = u.writer.reuse(ctx, u.known.Base, m)
	if _, missing := errors.AsType[*MissingError](err); missing {
		err = nil
	}
	return done, false, err
}

func regular(f artifact.File) bool { return f.Link == "" && !f.Dir }

// store reads the files that the store may lack and stores their contents.
func (u *upload) store(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var batch []int
	var size int64
	flush := func() {
		if files := batch; len(files) > 0 {
			group.Go(func() error { return u.pack(ctx, files) })
		}
		batch, size = nil, 0
	}
	for i, f := range u.found {
		switch {
		case u.skipped[i] != "" || !regular(f.File) || f.SHA256 != "" && u.writer.known.has(f.SHA256):
			u.advance(f.Size)
		case f.Size > maxPacked:
			group.Go(func() error { return u.large(ctx, i) })
		default:
			batch = append(batch, i)
			if size += f.Size; size >= packBytes {
				flush()
			}
		}
	}
	flush()
	return group.Wait()
}

func (u *upload) advance(size int64) {
	u.report(func(p *Progress) { p.Files, p.Bytes = p.Files+1, p.Bytes+size })
}

func (u *upload) sent(size int64) { u.report(func(p *Progress) { p.Sent += size }) }

func (u *upload) report(change func(*Progress)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change(&u.progress)
	if u.Progress != nil {
		u.Progress(u.progress)
	}
}

// manifest returns the files that are not left out. Parents of a file that was left out
// may be missing in it.
func (u *upload) manifest() artifact.Manifest {
	m := artifact.Manifest{Files: make([]artifact.File, 0, len(u.found))}
	for i, f := range u.found {
		if u.skipped[i] == "" {
			m.Files = append(m.Files, f.File)
		}
	}
	return m
}

// uploaded describes the upload, without its hash.
func (u *upload) uploaded() Uploaded {
	done := Uploaded{Sent: u.progress.Sent}
	for i, f := range u.found {
		switch u.skipped[i] {
		case "":
			done.Files, done.Bytes = done.Files+1, done.Bytes+f.Size
		case secret:
			done.Secrets = append(done.Secrets, f.Path)
		default:
			done.LeftOut = append(done.LeftOut, artifact.Warning{Path: f.Path, Problem: u.skipped[i]})
		}
	}
	slices.Sort(done.Secrets)
	return done
}

// remember saves the hashes of the files for the next upload. It ignores errors: without the
// hashes the upload only takes longer.
func (u *upload) remember(hash string) {
	u.known.Base = hash
	u.known.keep(u.found)
	_ = u.known.save(u.Known)
}
