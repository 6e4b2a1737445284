package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/desk/desktest"
)

// A body that is not a message is answered with an error of JSON-RPC in plain words.
func TestHandler_refusesABody(t *testing.T) {
	t.Parallel()
	h := Handler(desktest.New(t).Desk(t), Options{})
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for body, want := range map[string]struct {
		code int
		says string
	}{
		``:                         {http.StatusBadRequest, `"code":-32700,"message":"the body is not JSON`},
		`{not json`:                {http.StatusBadRequest, `"code":-32700,"message":"the body is not JSON: invalid character`},
		` []`:                      {http.StatusBadRequest, `"code":-32600,"message":"the body is an array`},
		`["x"]`:                    {http.StatusBadRequest, `"code":-32600,"message":"\"x\" is not a message of JSON-RPC 2.0`},
		`{"id":3,"method":"ping"}`: {http.StatusBadRequest, `"id":3,`},
		ping:                       {http.StatusOK, `"id":7,"result":{}`},
		`[` + ping + `]`:           {http.StatusOK, `"id":7,"result":{}`},
		strings.Repeat("x", mcp.DefaultMaxRequestBodyBytes+1): {http.StatusRequestEntityTooLarge, "the body has more than 4194304 bytes"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want.code, w.Code, "%.80q", body)
		require.Contains(t, w.Body.String(), want.says)
		require.NotContains(t, w.Body.String(), "wireDecode")
	}
}

// Requests of other forms are left to the SDK.
func TestHandler_otherForms(t *testing.T) {
	t.Parallel()
	h := Handler(desktest.New(t).Desk(t), Options{})
	for method, code := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPost: http.StatusUnsupportedMediaType} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/mcp", strings.NewReader("x")))
		require.Equal(t, code, w.Code)
	}
}
