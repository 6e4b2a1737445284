package session_test

import (
	"context"
	"errors"
	"io"
	"sync"

	"conclave/engine/files/artifact"
)

var errFault = errors.New("the store is down")

// faultyStore fails its failAt-th call, alternately before and after the call takes effect, so that
// the caller cannot distinguish a lost response from a failure.
type faultyStore struct {
	artifact.Store
	failAt int

	mu    sync.Mutex
	calls int
}

func (f *faultyStore) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return f.calls == f.failAt
}

func (f *faultyStore) Get(ctx context.Context, key string) ([]byte, error) {
	if f.fails() {
		return nil, errFault
	}
	return f.Store.Get(ctx, key)
}

func (f *faultyStore) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if f.fails() {
		return nil, errFault
	}
	return f.Store.Open(ctx, key)
}

func (f *faultyStore) Exists(ctx context.Context, key string) (bool, error) {
	if f.fails() {
		return false, errFault
	}
	return f.Store.Exists(ctx, key)
}

func (f *faultyStore) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if f.fails() {
		return errFault
	}
	return f.Store.Put(ctx, key, body)
}

func (f *faultyStore) Create(ctx context.Context, key string, body []byte) error {
	if f.fails() {
		if f.failAt%2 == 0 {
			_ = f.Store.Create(ctx, key, body)
		}
		return errFault
	}
	return f.Store.Create(ctx, key, body)
}

func (f *faultyStore) Copy(ctx context.Context, src, dst string) error {
	if f.fails() {
		return errFault
	}
	return f.Store.Copy(ctx, src, dst)
}
