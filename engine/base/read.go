package base

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
	"conclave/engine/redact"
)

// recall sets the hashes of the files that have not changed since the last upload.
func (u *upload) recall() {
	for i := range u.found {
		f := &u.found[i]
		u.progress.AllFiles++
		u.progress.AllBytes += f.Size
		if !regular(f.File) {
			continue
		}
		entry, ok := u.known.lookup(f.Path, artifact.Identify(f.Info))
		if !ok {
			continue
		}
		f.SHA256 = entry.SHA256
		if entry.Secret && !u.Secrets {
			u.skipped[i] = secret
		}
	}
}

// rehash reads the files whose hashes are not known, without storing them.
func (u *upload) rehash(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range u.found {
		if f := &u.found[i]; u.skipped[i] == "" && regular(f.File) && f.SHA256 == "" {
			group.Go(func() error { return u.examine(ctx, i) })
		}
	}
	return group.Wait()
}

// examine hashes one file and searches it for secrets.
func (u *upload) examine(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	f := &u.found[i]
	if f.Size <= maxPacked {
		content, err := u.read(f)
		if err != nil {
			return u.skip(i, err)
		}
		f.SHA256 = artifact.SumOf(content)
		u.confidential(i, content)
		return nil
	}
	file, err := artifact.Open(u.root, f.File)
	if err != nil {
		return u.skip(i, err)
	}
	defer file.Close()
	if f.SHA256, err = u.hash(f, file); err != nil {
		return err
	}
	u.confidential(i, nil)
	return nil
}

// pack reads small files and stores their new contents in one pack.
func (u *upload) pack(ctx context.Context, files []int) error {
	p := &packer{}
	for _, i := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f := &u.found[i]
		content, err := u.read(f)
		switch {
		case err != nil:
			if err := u.skip(i, err); err != nil {
				return err
			}
		default:
			f.SHA256 = artifact.SumOf(content)
			if !u.confidential(i, content) && u.writer.known.take(f.SHA256) {
				p.add(f.SHA256, content)
			}
		}
		u.advance(f.Size)
	}
	return u.writer.flush(ctx, p)
}

// read returns the content of a small file and notes its size.
func (u *upload) read(f *artifact.Found) ([]byte, error) {
	file, err := artifact.Open(u.root, f.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.Info, err = file.Stat(); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, packBytes+1))
	if err == nil && int64(len(content)) != f.Info.Size() {
		err = fmt.Errorf("%s changed while it was read: stop the process that writes to it", f.Path)
	}
	f.Size = int64(len(content))
	return content, err
}

// large stores a large file as a blob.
func (u *upload) large(ctx context.Context, i int) error {
	f := &u.found[i]
	defer func() { u.advance(f.Size) }()
	file, err := artifact.Open(u.root, f.File)
	if err != nil {
		return u.skip(i, err)
	}
	defer file.Close()
	if f.SHA256, err = u.hash(f, file); err != nil {
		return err
	}
	if u.confidential(i, nil) {
		return nil
	}
	if u.writer.known.take(f.SHA256) {
		if err := u.writer.blob(ctx, f.SHA256, file); err != nil {
			return err
		}
		// If the file is unchanged, the stored bytes are those that were hashed.
		after, err := file.Stat()
		if err != nil || artifact.Identify(after) != artifact.Identify(f.Info) {
			return errors.Join(err, fmt.Errorf("%s changed while it was read: stop the process that writes to it", f.Path))
		}
	}
	return nil
}

func (u *upload) hash(f *artifact.Found, file *os.File) (sum string, err error) {
	if f.Info, err = file.Stat(); err != nil {
		return "", err
	}
	hash := sha256.New()
	if f.Size, err = io.Copy(hash, io.LimitReader(file, artifact.MaxBaseFileBytes+1)); err != nil {
		return "", fmt.Errorf("read %s: %w", f.Path, err)
	}
	if f.Size > artifact.MaxBaseFileBytes {
		return "", &artifact.LimitError{What: "bytes in a file", Path: f.Path, Max: artifact.MaxBaseFileBytes, Base: true}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// confidential leaves out a file that holds a secret, and remembers it.
func (u *upload) confidential(i int, content []byte) bool {
	f := u.found[i]
	found := redact.SecretFile(f.Path, content)
	u.known.add(f.Path, artifact.Identify(f.Info), u.began, entry{SHA256: f.SHA256, Secret: found})
	if !found || u.Secrets {
		return false
	}
	u.skipped[i] = secret
	return true
}

// skip leaves out a file that has vanished or may not be read.
func (u *upload) skip(i int, err error) error {
	f := u.found[i]
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, artifact.ErrNotFound):
		u.skipped[i] = "it was removed during the upload"
	case errors.Is(err, fs.ErrPermission):
		u.skipped[i] = "it cannot be read: permission denied"
	default:
		return fmt.Errorf("read %s: %w", f.Path, err)
	}
	return nil
}
