package base

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"conclave/engine/artifact"
)

// The prefixes of a base's keys.
const (
	Root      = "base/"
	manifests = Root + "manifests/sha256/"
	indexes   = Root + "indexes/"
	packs     = Root + "packs/"
	blobs     = Root + "blobs/"
	uses      = Root + "used/"
)

func manifestKey(hash string) string { return manifests + hash + ".json" }
func indexKey(hash string) string    { return indexes + hash + ".json" }
func useKey(hash string) string      { return uses + hash + ".json" }

// scheme precedes the hash in a reference.
const scheme = "sha256:"

// Reference returns the name of a base in workflow inputs: sha256:<hex>.
func Reference(hash string) string { return scheme + hash }

// Parse returns the hash in a reference.
func Parse(reference string) (hash string, err error) {
	hash, ok := strings.CutPrefix(reference, scheme)
	if sum, err := hex.DecodeString(hash); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(hash) != hash {
		return "", fmt.Errorf("%q is not a reference of the form sha256:<64 lower-case hex digits>: `conclave upload DIR` prints one", reference)
	}
	return hash, nil
}

// MissingError reports a base that the store does not have.
type MissingError struct{ Hash string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the store has no base %s: upload the directory again with `conclave upload DIR`, to the bucket and prefix of the workers", Reference(e.Hash))
}

// Open reads the manifest of a base, or fails with a *MissingError. Contents are read from
// the store when they are needed.
func Open(ctx context.Context, store artifact.Store, hash string) (*artifact.Base, error) {
	m, err := loadManifest(ctx, store, hash)
	if err != nil {
		return nil, err
	}
	r := &reader{store: store, hash: hash}
	return artifact.NewBase(hash, m, r.open)
}

// loadManifest reads the manifest of a base and verifies its hash.
func loadManifest(ctx context.Context, store artifact.Store, hash string) (artifact.Manifest, error) {
	var m artifact.Manifest
	data, err := store.Get(ctx, manifestKey(hash))
	if errors.Is(err, artifact.ErrNotFound) {
		return m, &MissingError{Hash: hash}
	}
	if err != nil {
		return m, fmt.Errorf("read base %s: %w", hash, err)
	}
	if artifact.SumOf(data) != hash {
		return m, fmt.Errorf("read base %s: %w", hash, artifact.ErrCorrupt)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, &artifact.MalformedError{Key: manifestKey(hash), Err: err}
	}
	return m, nil
}

// encode returns the canonical bytes of a base's manifest and their hash.
func encode(m artifact.Manifest) (data []byte, hash string, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, "", fmt.Errorf("encode the manifest of a base: %w", err)
	}
	return b.Bytes(), artifact.SumOf(b.Bytes()), nil
}

// Hash returns the hash of a base's manifest.
func Hash(m artifact.Manifest) (string, error) {
	_, hash, err := encode(m)
	return hash, err
}

// Use records that a session starts from a base, so that Sweep keeps the base for a day. The
// caller must have named the base in a session. It fails with a *MissingError if the store
// does not have the base.
func Use(ctx context.Context, store artifact.Store, hash string, now func() time.Time) error {
	release, err := hold(ctx, store, now)
	if err != nil {
		return err
	}
	defer release()
	return use(ctx, store, hash, now())
}

func use(ctx context.Context, store artifact.Store, hash string, now time.Time) error {
	if err := artifact.PutJSON(ctx, store, useKey(hash), map[string]time.Time{"used_at": artifact.Timestamp(now)}); err != nil {
		return fmt.Errorf("record the use of base %s: %w", hash, err)
	}
	found, err := store.Exists(ctx, manifestKey(hash))
	if err != nil {
		return fmt.Errorf("look for base %s: %w", hash, err)
	}
	if !found {
		return &MissingError{Hash: hash}
	}
	return nil
}

// reader reads contents of a base from its packs and blobs.
type reader struct {
	store artifact.Store
	hash  string

	mu sync.Mutex
	at map[string]place // places of contents in packs; nil until the index is read
}

// place is the position of a content in a pack.
type place struct {
	pack   string
	offset int64
}

func (r *reader) open(ctx context.Context, f artifact.File) (io.ReadCloser, error) {
	places, err := r.places(ctx)
	if err != nil {
		return nil, err
	}
	at, packed := places[f.SHA256]
	if !packed {
		return r.store.Open(ctx, blobs+f.SHA256)
	}
	body, err := r.store.Open(ctx, packs+at.pack)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, body, at.offset); err != nil {
		return nil, errors.Join(fmt.Errorf("read pack %s: %w", at.pack, err), body.Close())
	}
	return section{io.LimitReader(body, f.Size), body}, nil
}

// section is part of a stream.
type section struct {
	io.Reader
	io.Closer
}

// places returns the positions of the contents in packs. It reads the index once.
func (r *reader) places(ctx context.Context) (map[string]place, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil {
		return r.at, nil
	}
	ix, err := readIndex(ctx, r.store, r.hash)
	if err != nil {
		return nil, err
	}
	r.at = ix.places()
	return r.at, nil
}
