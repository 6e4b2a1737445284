package base

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/engine/artifact"
)

const (
	maxPacked = 256 << 10 // bytes of a file in a pack; larger ones are blobs
	packBytes = 8 << 20   // bytes of a full pack
)

// index lists the packs that have the contents of a base.
type index struct {
	Format int         `json:"format"`
	Packs  []packIndex `json:"packs"`
}

// indexFormat is the newest format of an index.
const indexFormat = 1

// packIndex lists the contents of a pack in their order.
type packIndex struct {
	Pack  string   `json:"pack"`  // hash of the contents' hashes
	Files []string `json:"files"` // hashes of the contents
	Sizes []int64  `json:"sizes"` // sizes in bytes
}

func readIndex(ctx context.Context, store artifact.Store, hash string) (index, error) {
	ix, err := artifact.ReadJSON[index](ctx, store, indexKey(hash))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return ix, &MissingError{Hash: hash}
	case err != nil:
		return ix, fmt.Errorf("read the index of base %s: %w", hash, err)
	case ix.Format > indexFormat:
		return ix, fmt.Errorf("the index of base %s has format %d, this version reads up to %d: use a newer version", hash, ix.Format, indexFormat)
	}
	for _, p := range ix.Packs {
		if len(p.Files) != len(p.Sizes) {
			return ix, &artifact.MalformedError{Key: indexKey(hash), Err: fmt.Errorf("pack %s has %d files and %d sizes", p.Pack, len(p.Files), len(p.Sizes))}
		}
	}
	return ix, nil
}

// places returns the positions of all contents in packs.
func (ix index) places() map[string]place {
	at := map[string]place{}
	for _, p := range ix.Packs {
		var offset int64
		for i, sum := range p.Files {
			at[sum] = place{pack: p.Pack, offset: offset}
			offset += p.Sizes[i]
		}
	}
	return at
}

// useful returns the packs of which at least half of the bytes belong to a tree, and their
// contents.
func (ix index) useful(needed map[string]bool) (kept []packIndex, stored map[string]bool) {
	stored = map[string]bool{}
	for _, p := range ix.Packs {
		var live, all int64
		for i, sum := range p.Files {
			all += p.Sizes[i]
			if needed[sum] {
				live += p.Sizes[i]
			}
		}
		if 2*live < all || all == 0 {
			continue
		}
		kept = append(kept, p)
		for _, sum := range p.Files {
			stored[sum] = true
		}
	}
	return kept, stored
}

// packer collects contents for one pack.
type packer struct {
	body bytes.Buffer
	packIndex
}

func (p *packer) add(sum string, content []byte) {
	p.body.Write(content)
	p.Files, p.Sizes = append(p.Files, sum), append(p.Sizes, int64(len(content)))
}

// store writes the pack, unless it is empty, and returns its index.
func (p *packer) store(ctx context.Context, store artifact.Store) (packIndex, error) {
	if len(p.Files) == 0 {
		return packIndex{}, nil
	}
	p.Pack = artifact.SumOf([]byte(strings.Join(p.Files, "\n")))
	if err := store.Put(ctx, packs+p.Pack, bytes.NewReader(p.body.Bytes())); err != nil {
		return packIndex{}, fmt.Errorf("store pack %s: %w", p.Pack, err)
	}
	return p.packIndex, nil
}
