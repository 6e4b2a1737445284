package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/text"
)

func (u *upload) recallHashes() {
	for i := range u.found {
		f := &u.found[i]
		u.progress.AllFiles++
		u.progress.AllBytes += f.Size
		if !isRegular(f.File) {
			continue
		}
		entry, ok := u.known.findEntry(f.Path, artifact.Identify(f.Info))
		if !ok {
			continue
		}
		f.SHA256 = entry.SHA256
		if entry.Secret && !u.Secrets {
			u.skipped[i] = secret
		}
	}
}

func (u *upload) hashUnknown(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range u.found {
		if f := &u.found[i]; u.skipped[i] == "" && isRegular(f.File) && f.SHA256 == "" {
			group.Go(func() error { return u.examineFile(ctx, i) })
		}
	}
	return group.Wait()
}

func (u *upload) examineFile(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	f := &u.found[i]
	if f.Size <= maxPacked {
		content, err := u.readSmall(f)
		if err != nil {
			return u.leaveOutLost(i, err)
		}
		f.SHA256 = artifact.SumOf(content)
		u.leaveOutSecret(i, content)
		return nil
	}
	file, err := artifact.Open(u.root, f.File)
	if err != nil {
		return u.leaveOutLost(i, err)
	}
	defer file.Close()
	if f.SHA256, err = u.hashFile(f, file); err != nil {
		return err
	}
	u.leaveOutSecret(i, nil)
	return nil
}

func (u *upload) packFiles(ctx context.Context, files []int) error {
	p := &packer{}
	for _, i := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f := &u.found[i]
		content, err := u.readSmall(f)
		switch {
		case err != nil:
			if err := u.leaveOutLost(i, err); err != nil {
				return err
			}
		default:
			f.SHA256 = artifact.SumOf(content)
			if !u.leaveOutSecret(i, content) && u.writer.known.addMissing(f.SHA256) {
				p.addContent(f.SHA256, content)
			}
		}
		u.countRead(f.Size)
	}
	return u.writer.storePack(ctx, p)
}

func (u *upload) readSmall(f *artifact.Found) ([]byte, error) {
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

func (u *upload) storeLarge(ctx context.Context, i int) error {
	f := &u.found[i]
	defer func() { u.countRead(f.Size) }()
	file, err := artifact.Open(u.root, f.File)
	if err != nil {
		return u.leaveOutLost(i, err)
	}
	defer file.Close()
	if f.SHA256, err = u.hashFile(f, file); err != nil {
		return err
	}
	if u.leaveOutSecret(i, nil) {
		return nil
	}
	if u.writer.known.addMissing(f.SHA256) {
		if err := u.writer.storeBlob(ctx, f.SHA256, file); err != nil {
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

func (u *upload) hashFile(f *artifact.Found, file *os.File) (sum string, err error) {
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

func (u *upload) leaveOutSecret(i int, content []byte) bool {
	f := u.found[i]
	found := text.SecretFile(f.Path, content)
	u.known.addEntry(f.Path, artifact.Identify(f.Info), u.began, entry{SHA256: f.SHA256, Secret: found})
	if !found || u.Secrets {
		return false
	}
	u.skipped[i] = secret
	return true
}

func (u *upload) leaveOutLost(i int, err error) error {
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

// Changes returns the changes that an answer made to the layout's base, with their contents;
// without a base every file is new. Files for agents alone are left out.
func Changes(ctx context.Context, store artifact.Store, layout artifact.Layout, c artifact.Change) ([]patch.Change, error) {
	c = c.Deliverable(layout.Base())
	changed := make(map[string]bool, len(c.Files)+len(c.Removed))
	for _, f := range c.Files {
		changed[f.Path] = true
	}
	for _, name := range c.Removed {
		changed[name] = true
	}
	var before, after []patch.File
	for _, f := range layout.Base().Manifest().Files {
		if !changed[f.Path] {
			continue
		}
		old, err := patchFile(ctx, store, layout, f)
		if err != nil {
			return nil, err
		}
		before = append(before, old)
	}
	for _, f := range c.Files {
		current, err := patchFile(ctx, store, layout, f)
		if err != nil {
			return nil, err
		}
		after = append(after, current)
	}
	return patch.Changes(ctx, before, after), context.Cause(ctx)
}

func patchFile(ctx context.Context, store artifact.Store, layout artifact.Layout, f artifact.File) (patch.File, error) {
	file := patch.File{Path: f.Path, Mode: patch.Regular, Content: []byte(f.Link)}
	switch {
	case f.Link != "":
		file.Mode = patch.Link
		return file, nil
	case f.Dir:
		file.Mode = patch.Dir
		return file, nil
	case f.Mode&0o100 != 0:
		file.Mode = patch.Executable
	}
	content, err := artifact.ReadFile(ctx, store, layout, f)
	if err != nil {
		return file, fmt.Errorf("read %q: %w", f.Path, err)
	}
	file.Content = content
	return file, nil
}

// Patch returns the change of an answer as a patch for git apply.
func Patch(ctx context.Context, store artifact.Store, layout artifact.Layout, c artifact.Change) ([]byte, error) {
	changes, err := Changes(ctx, store, layout, c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := patch.Write(&b, changes, patch.Style{}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
