package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/callers"
)

// A body that is not a message is refused.
func TestHandler_refusesABody(t *testing.T) {
	t.Parallel()
	h := Handler(callers.New(t).Desk(t), Options{})
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for body, want := range map[string]int{
		``:                         http.StatusBadRequest,
		`{not json`:                http.StatusBadRequest,
		` []`:                      http.StatusBadRequest,
		`["x"]`:                    http.StatusBadRequest,
		`{"id":3,"method":"ping"}`: http.StatusBadRequest,
		ping:                       http.StatusOK,
		`[` + ping + `]`:           http.StatusOK,
		strings.Repeat("x", mcp.DefaultMaxRequestBodyBytes+1): http.StatusRequestEntityTooLarge,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, "%.80q", body)
	}
}

// Requests of other forms are refused, too.
func TestHandler_otherForms(t *testing.T) {
	t.Parallel()
	h := Handler(callers.New(t).Desk(t), Options{})
	for method, code := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPost: http.StatusUnsupportedMediaType} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/mcp", strings.NewReader("x")))
		require.Equal(t, code, w.Code)
	}
}
