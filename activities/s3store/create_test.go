package s3store

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func TestCreate_recognisesItsObjectAfterALostResponse(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(s *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Method != http.MethodPut || n > 1 {
			return false
		}
		s.store(r)
		hangUp(w)
		return true
	}}
	store := server.start(t)
	require.NoError(t, store.Create(t.Context(), "claim", []byte("token 1")))
	require.Equal(t, 2, server.puts())
	require.ErrorIs(t, store.Create(t.Context(), "claim", []byte("token 1")), artifact.ErrExists,
		"without a lost response the same bytes are another caller's")
}

func TestCreate_losesToAnotherWriter(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(s *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Method != http.MethodPut || n > 1 {
			return false
		}
		s.objects[r.URL.Path] = "token 2"
		hangUp(w)
		return true
	}}
	store := server.start(t)
	require.ErrorIs(t, store.Create(t.Context(), "claim", []byte("token 1")), artifact.ErrExists)
}

func TestCreate_reportsAnUnknownOwner(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(s *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
		switch {
		case r.Method == http.MethodGet:
			refuse(w, http.StatusForbidden, "AccessDenied")
		case n == 1:
			s.store(r)
			hangUp(w)
		default:
			return false
		}
		return true
	}}
	err := server.start(t).Create(t.Context(), "claim", []byte("token 1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrExists)
}

func TestCreate_resolvesConflicts(t *testing.T) {
	t.Parallel()
	conflicts := func(count int, code string) *scripted {
		return &scripted{script: func(_ *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method != http.MethodPut || n > count {
				return false
			}
			refuse(w, http.StatusConflict, code)
			return true
		}}
	}
	t.Run("the winner failed, and the key is free", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, conflicts(2, "ConditionalRequestConflict").start(t).Create(t.Context(), "claim", []byte("1")))
	})
	t.Run("the winner has the key", func(t *testing.T) {
		t.Parallel()
		server := conflicts(2, "OperationAborted")
		store := server.start(t)
		server.objects["/bucket/claim"] = "2"
		require.ErrorIs(t, store.Create(t.Context(), "claim", []byte("1")), artifact.ErrExists)
	})
	t.Run("it never ends, and the key exists", func(t *testing.T) {
		t.Parallel()
		server := conflicts(1000, "ConditionalRequestConflict")
		store := server.start(t)
		server.objects["/bucket/claim"] = "1"
		require.ErrorIs(t, store.Create(t.Context(), "claim", []byte("1")), artifact.ErrExists)
		require.Equal(t, maxTries, server.puts())
	})
	t.Run("it never ends, and the key is free", func(t *testing.T) {
		t.Parallel()
		err := conflicts(1000, "ConditionalRequestConflict").start(t).Create(t.Context(), "claim", []byte("1"))
		require.Error(t, err)
		require.NotErrorIs(t, err, artifact.ErrExists)
	})
	t.Run("other conflicts are final", func(t *testing.T) {
		t.Parallel()
		server := conflicts(1000, "ExistingObjectIsDirectory")
		require.Error(t, server.start(t).Create(t.Context(), "claim", []byte("1")))
		require.Equal(t, 1, server.puts())
	})
}

func TestCreate_stopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := &scripted{script: func(_ *scripted, w http.ResponseWriter, _ *http.Request, _ int) bool {
		cancel()
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}}
	require.ErrorIs(t, server.start(t).Create(ctx, "claim", []byte("1")), context.Canceled)
	require.Equal(t, 1, server.puts())
}
