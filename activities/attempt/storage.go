package attempt

import (
	"context"
	"errors"
	"io"
	"iter"

	"conclave/engine/artifact"
)

// storage marks the faults of a store, so that an outage is told from a fault
// of our own: the one is waited for, the other must not be repeated for ever.
type storage struct{ store artifact.Store }

// storageError is such a fault.
type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }
func (e *storageError) Unwrap() error { return e.err }

// fault marks err unless it is an answer of the store or a name it cannot hold.
func fault(err error) error {
	var name *artifact.NameError
	if err == nil || errors.Is(err, artifact.ErrNotFound) || errors.Is(err, artifact.ErrExists) || errors.As(err, &name) {
		return err
	}
	return &storageError{err}
}

func (s storage) Get(ctx context.Context, key string) ([]byte, error) {
	body, err := s.store.Get(ctx, key)
	return body, fault(err)
}

func (s storage) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	body, err := s.store.Open(ctx, key)
	return body, fault(err)
}

func (s storage) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return fault(s.store.Put(ctx, key, body))
}

func (s storage) Create(ctx context.Context, key string, body []byte) error {
	return fault(s.store.Create(ctx, key, body))
}

func (s storage) Copy(ctx context.Context, src, dst string) error {
	return fault(s.store.Copy(ctx, src, dst))
}

func (s storage) Exists(ctx context.Context, key string) (bool, error) {
	there, err := s.store.Exists(ctx, key)
	return there, fault(err)
}

func (s storage) Delete(ctx context.Context, key string) error {
	return fault(s.store.Delete(ctx, key))
}

func (s storage) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range s.store.List(ctx, prefix) {
			if !yield(key, fault(err)) {
				return
			}
		}
	}
}

func (s storage) URL(key string) string { return s.store.URL(key) }
