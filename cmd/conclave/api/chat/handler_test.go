package chat

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/gateway"
)

// Errors have the form of OpenAI's API. The official clients repeat a request only if that can
// help.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
		retry  string
	}{
		"a wrong parameter": {
			unsupportedParam("n", "a session has one answer"), 400,
			`{"error":{"message":"n is not supported: a session has one answer","type":"invalid_request_error","param":"n","code":"unsupported_parameter"}}`, "false",
		},
		"a failed session": {
			&gateway.Refusal{Status: 500, Code: "session_failed", Message: "session s1 ended as failed"}, 500,
			`{"error":{"message":"session s1 ended as failed","type":"server_error","param":null,"code":"session_failed"}}`, "false",
		},
		"a spent budget": {
			&gateway.Refusal{Status: 429, Code: "insufficient_quota", Message: "spent"}, 429,
			`{"error":{"message":"spent","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, "false",
		},
		"a service that is away": {
			&gateway.Refusal{Status: 503, Code: "unavailable", Message: "start the session: no connection"}, 503,
			`{"error":{"message":"start the session: no connection","type":"server_error","param":null,"code":"unavailable"}}`, "",
		},
		"a fault": {errors.New("odd"), 500, `{"error":{"message":"odd","type":"server_error","param":null,"code":"internal"}}`, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			sendRefusal(w, httptest.NewRequest("POST", "/v1/chat/completions", nil), tc.err)
			require.Equal(t, tc.status, w.Code)
			require.JSONEq(t, tc.body, w.Body.String())
			require.Equal(t, tc.retry, w.Header().Get("X-Should-Retry"))
		})
	}
	w := httptest.NewRecorder()
	sendRefusal(w, nil, context.Canceled)
	require.Empty(t, w.Body.String(), "nobody reads it")
}

// A panic in apart ends the request that caused it, but not the server.
func TestApart(t *testing.T) {
	t.Parallel()
	done := false
	runApart(func() { done = true })
	require.True(t, done)
	require.PanicsWithValue(t, "odd", func() { runApart(func() { panic("odd") }) }) //nolint:forbidigo // as a fault would
}
