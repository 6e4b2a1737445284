package s3store

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// Every attempt of a request is observed, with its operation and status.
func TestObserve_seesEachAttempt(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	s := &scripted{
		script: func(_ *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method != http.MethodPut || n > 1 {
				return false
			}
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		},
		observe: func(operation string, status int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			require.Positive(t, took)
			seen = append(seen, fmt.Sprintf("%s %d", operation, status))
		},
	}
	store := s.start(t)
	require.NoError(t, store.Put(t.Context(), "key", strings.NewReader("text")))
	_, err := store.Get(t.Context(), "key")
	require.NoError(t, err)
	_, err = store.Get(t.Context(), "none")
	require.ErrorIs(t, err, artifact.ErrNotFound)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"PutObject 503", "PutObject 200", "GetObject 200", "GetObject 404"}, seen)
}
