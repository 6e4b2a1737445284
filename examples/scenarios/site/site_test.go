package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func site(t *testing.T, broken bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	(&shop{broken: broken, baskets: map[string]int{}}).addRoutes(mux)
	mux.HandleFunc("POST /v1/chat/completions", completeChat)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func read(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	require.NoError(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(data)
}

// Baskets belong to customers; a broken shop forgets them.
func TestShop_baskets(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		server := site(t, broken)
		lamps := func(path, customer string) string {
			response, err := http.PostForm(server.URL+path+"?customer="+url.QueryEscape(customer), nil)
			page := read(t, response, err)
			_, after, found := strings.Cut(page, "Lamps in your basket: ")
			require.True(t, found, page)
			return strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])
		}
		if broken {
			require.Equal(t, "0", lamps("/basket", "grace"))
			continue
		}
		require.Equal(t, "1", lamps("/basket", "grace"))
		require.Equal(t, "2", lamps("/basket", "grace"))
		require.Equal(t, "1", lamps("/basket", "a & b"))
		require.Equal(t, "0", lamps("/empty", "grace"))
		response, err := http.Get(server.URL + "/?customer=a+%26+b")
		require.Contains(t, read(t, response, err), "Lamps in your basket: 1")
	}
}

func TestShop_signIn(t *testing.T) {
	t.Parallel()
	server := site(t, false)
	response, err := http.Get(server.URL + "/sign-in")
	require.Contains(t, read(t, response, err), `<button id="sign-in">`)
	for _, tt := range []struct {
		user, password string
		status         int
		says           string
	}{
		{"ada", "light-of-1843", http.StatusOK, "Welcome, Ada."},
		{"ada", "darkness", http.StatusForbidden, "That is not your password."},
		{"bob", "light-of-1843", http.StatusForbidden, "That is not your password."},
	} {
		response, err := http.PostForm(server.URL+"/sign-in", url.Values{"user": {tt.user}, "password": {tt.password}})
		require.Contains(t, read(t, response, err), tt.says)
		require.Equal(t, tt.status, response.StatusCode)
	}
	response, err = http.Get(server.URL + "/elsewhere")
	_ = read(t, response, err)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func reply(t *testing.T, server *httptest.Server, messages []map[string]any) (tool string, arguments map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "script", "messages": messages})
	require.NoError(t, err)
	response, err := http.Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	var got struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, response, err)), &got))
	require.Positive(t, got.Usage.PromptTokens)
	call := got.Choices[0].Message.ToolCalls[0].Function
	require.NoError(t, json.Unmarshal([]byte(call.Arguments), &arguments))
	return call.Name, arguments
}

// The model replies with one tool call at a time, whatever the request.
func TestComplete(t *testing.T) {
	t.Parallel()
	server := site(t, false)
	user := map[string]any{"role": "user", "content": "# Step 01\n\nOpen the shop."}
	tool, arguments := reply(t, server, []map[string]any{{"role": "system", "content": "You test."}, user})
	require.NotEmpty(t, tool)
	require.NotNil(t, arguments)

	response, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader("hello"))
	require.Contains(t, read(t, response, err), "not a request of the Chat Completions API")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
}

// A conversation is summarized by its task, its replies and the results of its calls.
func TestRequest_conversation(t *testing.T) {
	t.Parallel()
	var r request
	require.NoError(t, json.Unmarshal([]byte(`{"messages":[
		{"role":"system","content":"You test."},
		{"role":"user","content":"Step 01\n- User: ada \n- Password: light"},
		{"role":"assistant","content":null},
		{"role":"tool","content":"a page"},
		{"role":"user","content":[{"type":"image_url"}]},
		{"role":"assistant","content":"ok"},
		{"role":"tool","content":"another"}]}`), &r))
	c := r.readConversation()
	require.Equal(t, 2, c.replies)
	require.Equal(t, []string{"a page", "another"}, c.results)
	require.Equal(t, "ada", c.findInTask(`(?m)^- User: (.+)$`))
	require.Equal(t, "light", c.findInTask(`(?m)^- Password: (.+)$`))
	require.Empty(t, c.findInTask(`(?m)^- PIN: (.+)$`))
}

func TestServe_takenAddress(t *testing.T) {
	t.Parallel()
	server := site(t, false)
	err := serveShop(strings.TrimPrefix(server.URL, "http://"), false)
	require.ErrorContains(t, err, "serve the shop: listen tcp")
	require.ErrorContains(t, err, "choose another -address")
}
