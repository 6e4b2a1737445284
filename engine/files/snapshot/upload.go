package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
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
	done, err := r.runUpload(ctx)
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

func (u *upload) runUpload(ctx context.Context) (Uploaded, error) {
	release, err := holdSweeps(ctx, u.Store, u.Now)
	if err != nil {
		return Uploaded{}, err
	}
	defer release()
	u.writer = &writer{store: u.Store, now: u.Now, sent: u.countSent}
	if done, stored, err := u.findUnchanged(ctx); stored || err != nil {
		return done, err
	}
	if err := u.storeContents(ctx); err != nil {
		return Uploaded{}, err
	}
	done := u.describeUpload()
	done.Hash, err = u.writer.writeTree(ctx, u.newManifest())
	if err == nil {
		u.saveHashes(done.Hash)
	}
	return done, err
}

// findUnchanged reports whether the store already has the base, and returns the result without
// sending anything. Otherwise it prepares to reuse the contents of the last base.
func (u *upload) findUnchanged(ctx context.Context) (done Uploaded, stored bool, err error) {
	u.recallHashes()
	if u.known.Base == "" {
		return done, false, nil
	}
	if err := u.hashUnknown(ctx); err != nil {
		return done, false, err
	}
	m := u.newManifest()
	_, hash := encodeManifest(m)
	err = markUsed(ctx, u.Store, hash, u.Now())
	if _, missing := errors.AsType[*MissingError](err); !missing {
		done = u.describeUpload()
		done.Hash = hash
		u.saveHashes(hash)
		return done, err == nil, err
	}
	err = u.writer.reuseContents(ctx, u.known.Base, m)
	if _, missing := errors.AsType[*MissingError](err); missing {
		err = nil
	}
	return done, false, err
}

func isRegular(f artifact.File) bool { return f.Link == "" && !f.Dir }

func (u *upload) storeContents(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var batch []int
	var size int64
	flush := func() {
		if files := batch; len(files) > 0 {
			group.Go(func() error { return u.packFiles(ctx, files) })
		}
		batch, size = nil, 0
	}
	for i, f := range u.found {
		switch {
		case u.skipped[i] != "" || !isRegular(f.File) || f.SHA256 != "" && u.writer.known.hasSum(f.SHA256):
			u.countRead(f.Size)
		case f.Size > maxPacked:
			group.Go(func() error { return u.storeLarge(ctx, i) })
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

func (u *upload) countRead(size int64) {
	u.reportProgress(func(p *Progress) { p.Files, p.Bytes = p.Files+1, p.Bytes+size })
}

func (u *upload) countSent(size int64) { u.reportProgress(func(p *Progress) { p.Sent += size }) }

func (u *upload) reportProgress(change func(*Progress)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change(&u.progress)
	if u.Progress != nil {
		u.Progress(u.progress)
	}
}

// newManifest returns the files that are not left out. Parents of a file that was left out
// may be missing in it.
func (u *upload) newManifest() artifact.Manifest {
	m := artifact.Manifest{Files: make([]artifact.File, 0, len(u.found))}
	for i, f := range u.found {
		if u.skipped[i] == "" {
			m.Files = append(m.Files, f.File)
		}
	}
	return m
}

func (u *upload) describeUpload() Uploaded {
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

// saveHashes saves the hashes of the files for the next upload. It ignores errors: without the
// hashes the upload only takes longer.
func (u *upload) saveHashes(hash string) {
	u.known.Base = hash
	u.known.keepFound(u.found)
	_ = u.known.saveFile(u.Known)
}

// known remembers the hashes of a directory's files between uploads.
type known struct {
	Format int              `json:"format"`
	Store  string           `json:"store"` // store to which Base was uploaded
	Base   string           `json:"base"`  // hash of the last upload
	Files  map[string]entry `json:"files"` // files by path; names that are not UTF-8 are not remembered

	mu sync.Mutex
}

// entry is a file as it was read.
type entry struct {
	artifact.Identity
	SHA256 string `json:"sha256"`
	Secret bool   `json:"secret,omitempty"`
}

// knownFormat changes with the format of the file and with the patterns that recognize secrets.
const knownFormat = 2

// readKnown reads the remembered hashes of a directory. It starts afresh if the file is
// missing or has another format.
func readKnown(file, store string) *known {
	k := &known{}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, k) != nil || k.Format != knownFormat {
		k = &known{Format: knownFormat}
	}
	if k.Store != store {
		k.Store, k.Base = store, ""
	}
	if k.Files == nil {
		k.Files = map[string]entry{}
	}
	return k
}

func (k *known) findEntry(path string, id artifact.Identity) (entry, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.Files[path]
	return e, ok && e.Identity == id
}

// addEntry records a file that was read after began, unless it may change again without a new identity.
func (k *known) addEntry(path string, id artifact.Identity, began time.Time, e entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.Files, path)
	if e.Identity = id; id.Settled(began.UnixNano()) {
		k.Files[path] = e
	}
}

func (k *known) keepFound(found []artifact.Found) {
	files := make(map[string]entry, len(found))
	for _, f := range found {
		if e, ok := k.Files[f.Path]; ok {
			files[f.Path] = e
		}
	}
	k.Files = files
}

func (k *known) saveFile(file string) error {
	if file == "" {
		return nil
	}
	data, _ := json.Marshal(k) // hashes always have a JSON form
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "known-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone after the rename
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
