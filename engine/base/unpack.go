package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// unpack creates dst with the files of a base from the store. It reads each pack once and
// verifies every content. The modes are those of m.
func unpack(ctx context.Context, store artifact.Store, hash string, m artifact.Manifest, dst string) error {
	ix, err := readIndex(ctx, store, hash)
	if err != nil {
		return err
	}
	u := &unpacker{store: store, dst: dst, named: map[string][]artifact.File{}}
	for _, f := range m.Files {
		if regular(f) {
			u.named[f.SHA256] = append(u.named[f.SHA256], f)
		}
	}
	return fill(ctx, m, dst, func(ctx context.Context) error { return u.run(ctx, ix) })
}

// unpacker writes the contents of a base.
type unpacker struct {
	store artifact.Store
	dst   string
	named map[string][]artifact.File // files by content
}

func (u *unpacker) run(ctx context.Context, ix index) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	packed := map[string]bool{}
	for _, p := range ix.Packs {
		var wanted []bool
		for _, sum := range p.Files {
			wanted = append(wanted, u.named[sum] != nil && !packed[sum])
			packed[sum] = true
		}
		group.Go(func() error { return u.pack(ctx, p, wanted) })
	}
	for sum := range u.named {
		if !packed[sum] {
			group.Go(func() error { return u.blob(ctx, sum) })
		}
	}
	return group.Wait()
}

// pack writes the wanted contents of a pack.
func (u *unpacker) pack(ctx context.Context, p packIndex, wanted []bool) error {
	body, err := u.store.Open(ctx, packs+p.Pack)
	if err != nil {
		return fmt.Errorf("read pack %s: %w", p.Pack, err)
	}
	defer body.Close()
	for i, sum := range p.Files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if !wanted[i] {
			_, err = io.CopyN(io.Discard, body, p.Sizes[i])
		} else {
			err = u.packed(body, sum, p.Sizes[i])
		}
		if err != nil {
			return fmt.Errorf("read pack %s: %w", p.Pack, err)
		}
	}
	return nil
}

func (u *unpacker) packed(body io.Reader, sum string, size int64) error {
	if size > maxPacked {
		return fmt.Errorf("content %s has %d bytes, a pack has at most %d of one: %w", sum, size, maxPacked, artifact.ErrCorrupt)
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(body, content); err != nil {
		return err
	}
	if artifact.SumOf(content) != sum {
		return fmt.Errorf("content %s: %w", sum, artifact.ErrCorrupt)
	}
	for _, f := range u.named[sum] {
		if err := u.write(f, func(to io.Writer) error { _, err := to.Write(content); return err }); err != nil {
			return err
		}
	}
	return nil
}

// blob writes the files with a large content.
func (u *unpacker) blob(ctx context.Context, sum string) error {
	for _, f := range u.named[sum] {
		body, err := u.store.Open(ctx, blobs+sum)
		if err != nil {
			return fmt.Errorf("content of %q: %w", f.Path, err)
		}
		err = u.write(f, func(to io.Writer) error { return artifact.CopyVerified(ctx, to, body, f) })
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) write(f artifact.File, content func(io.Writer) error) error {
	to, err := os.OpenFile(filepath.Join(u.dst, f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(to), to.Chmod(fs.FileMode(f.Mode)&fs.ModePerm), to.Close())
}
