package attempt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// failing is a store whose every call fails alike.
type failing struct {
	artifact.Store
	err error
}

func (s failing) Get(context.Context, string) ([]byte, error)           { return nil, s.err }
func (s failing) Open(context.Context, string) (io.ReadCloser, error)   { return nil, s.err }
func (s failing) Put(context.Context, string, io.ReadSeeker) error      { return s.err }
func (s failing) Create(context.Context, string, []byte) error          { return s.err }
func (s failing) Copy(context.Context, string, string) error            { return s.err }
func (s failing) Exists(context.Context, string) (bool, error)          { return false, s.err }
func (s failing) Delete(context.Context, string) error                  { return s.err }
func (s failing) DeleteAll(context.Context, []string) error             { return s.err }
func (s failing) List(context.Context, string) iter.Seq2[string, error] { return one("", s.err) }
func (s failing) Objects(context.Context, string) iter.Seq2[artifact.Object, error] {
	return one(artifact.Object{}, s.err)
}

func one[T any](value T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(value, err) }
}

// first returns the error of a listing's first element.
func first[T any](listing iter.Seq2[T, error]) error {
	for _, err := range listing {
		return err
	}
	return nil
}

// calls are the errors of all methods of a store.
func calls(t *testing.T, s artifact.Store) map[string]error {
	ctx := t.Context()
	_, get := s.Get(ctx, "k")
	_, open := s.Open(ctx, "k")
	_, exists := s.Exists(ctx, "k")
	return map[string]error{
		"Get": get, "Open": open, "Exists": exists,
		"Put": s.Put(ctx, "k", bytes.NewReader(nil)), "Create": s.Create(ctx, "k", nil), "Copy": s.Copy(ctx, "k", "l"),
		"Delete": s.Delete(ctx, "k"), "DeleteAll": s.DeleteAll(ctx, []string{"k"}),
		"List": first(s.List(ctx, "")), "Objects": first(s.Objects(ctx, "")),
	}
}

// An outage of the storage is waited out by every call; an answer of it is not.
func TestStorage_classifies(t *testing.T) {
	t.Parallel()
	outage := errors.New("connection refused")
	for method, err := range calls(t, storage{failing{err: outage}}) {
		require.ErrorIs(t, err, outage, method)
		require.EqualError(t, err, outage.Error(), method)
		require.Equal(t, step.Class{Type: step.Storage, Free: true}, classify(err), method)
	}
	for _, answer := range []error{
		artifact.ErrNotFound, artifact.ErrExists, fmt.Errorf("read k: %w", artifact.ErrNotFound), &artifact.NameError{What: "path"}, nil,
	} {
		for method, err := range calls(t, storage{failing{err: answer}}) {
			require.Equal(t, answer, err, method)
			require.False(t, step.Wraps[*storageError](err), method)
		}
	}
}

// A store without faults behaves as without the wrapper.
func TestStorage_passesOn(t *testing.T) {
	t.Parallel()
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	s := storage{dir}
	require.NoError(t, s.Create(t.Context(), "a/b", []byte("one")))
	require.ErrorIs(t, s.Create(t.Context(), "a/b", []byte("two")), artifact.ErrExists)
	require.NoError(t, s.Put(t.Context(), "a/c", strings.NewReader("three")))
	require.NoError(t, s.Copy(t.Context(), "a/b", "a/d"))
	data, err := s.Get(t.Context(), "a/d")
	require.NoError(t, err)
	require.Equal(t, "one", string(data))
	body, err := s.Open(t.Context(), "a/c")
	require.NoError(t, err)
	data, err = io.ReadAll(body)
	require.NoError(t, errors.Join(err, body.Close()))
	require.Equal(t, "three", string(data))
	var keys []string
	for key, err := range s.List(t.Context(), "a/") {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.Equal(t, []string{"a/b", "a/c", "a/d"}, keys)
	for o, err := range s.Objects(t.Context(), "a/") {
		require.NoError(t, err)
		require.Equal(t, "a/b", o.Key)
		break // a listing may be left
	}
	require.NoError(t, s.Delete(t.Context(), "a/b"))
	require.NoError(t, s.DeleteAll(t.Context(), []string{"a/c", "a/d", "a/e"}))
	there, err := s.Exists(t.Context(), "a/b")
	require.NoError(t, err)
	require.False(t, there)
	require.Equal(t, dir.URL("a/b"), s.URL("a/b"))
}

// The reason for the end of a context tells whether the step goes on later.
func TestEndedByServer(t *testing.T) {
	t.Parallel()
	own := errors.New("the heart has stopped")
	for name, tc := range map[string]struct {
		cause               error
		ended, cancel, hold bool
	}{
		"cancelled":              {context.Canceled, true, true, false},
		"cancelled by heartbeat": {temporal.NewCanceledError(), true, true, false},
		"paused":                 {activity.ErrActivityPaused, true, false, true},
		"reset":                  {activity.ErrActivityReset, true, false, true},
		"stopped by the worker":  {errStopped, false, false, false},
		"fenced":                 {errFenced, false, false, false},
		"another reason":         {own, false, false, false},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		require.False(t, endedByServer(ctx, tc.cause), name)
		end(tc.cause)
		require.Equal(t, tc.ended, endedByServer(ctx, fmt.Errorf("call the model: %w", tc.cause)), name)
		require.False(t, endedByServer(ctx, io.ErrUnexpectedEOF), "%s: an error of another cause", name)
		require.Equal(t, tc.cancel, isCancel(tc.cause), name)
		require.Equal(t, tc.hold, isHold(tc.cause), name)
	}
}

// The delay that a model's server asks for is kept; other delays are spread, so that not all
// steps of a worker come back at once.
func TestApplicationError_delay(t *testing.T) {
	t.Parallel()
	delays := map[string]bool{}
	for range 50 {
		carried, ok := errors.AsType[*temporal.ApplicationError](applicationError(errFenced, classify(errFenced)))
		require.True(t, ok)
		require.GreaterOrEqual(t, carried.NextRetryDelay(), fenceDelay)
		require.LessOrEqual(t, carried.NextRetryDelay(), 2*fenceDelay)
		require.Equal(t, temporal.ApplicationErrorCategoryBenign, carried.Category())
		delays[carried.NextRetryDelay().String()] = true
	}
	require.Greater(t, len(delays), 10)

	limited := &llm.Error{Kind: llm.RateLimited, RetryAfter: 7 * time.Second, Message: "slow down"}
	for range 10 {
		carried, ok := errors.AsType[*temporal.ApplicationError](applicationError(limited, classify(limited)))
		require.True(t, ok)
		require.Equal(t, 7*time.Second, carried.NextRetryDelay())
		require.Contains(t, carried.Message(), "slow down")
	}
	bug, ok := errors.AsType[*temporal.ApplicationError](applicationError(errors.New("a bug"), classify(errors.New("a bug"))))
	require.True(t, ok)
	require.Zero(t, bug.NextRetryDelay(), "the retry policy decides")
	require.NotEqual(t, temporal.ApplicationErrorCategoryBenign, bug.Category())
	require.Equal(t, "the message", message(fmt.Errorf("run: %w", temporal.NewApplicationError("the message", "Kind"))))
	require.Equal(t, "3 attempts died without progress", message(&noProgressError{attempts: 3}))
}
