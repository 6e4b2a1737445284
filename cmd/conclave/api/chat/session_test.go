package chat

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// site is a handler behind a gate, for one caller.
type site struct {
	t      *testing.T
	played *callers.Temporal
	http.Handler
	key string
}

func newSite(t *testing.T, by access.Caller, readOnly bool) site {
	t.Helper()
	played := callers.New(t)
	page := func(_ *http.Request, session string) string { return "http://pages/sessions/" + session }
	gated, key := callers.Gate(t, by, New(played.Desk(t), page, readOnly))
	return site{t, played, gated, key}
}

// send sends a request; headers are names and values.
func (s site) send(ctx context.Context, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8333"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s site) ask(body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.send(s.t.Context(), http.MethodPost, "/v1/chat/completions", body, headers...)
}

// answered plays the next session to its end.
func (s site) answered(answer string) {
	go func() {
		s.played.Begun(s.t).Decide(answer, llm.Usage{InputTokens: 30, OutputTokens: 12, ModelCalls: 2})
	}()
}

// failure returns the error of a reply.
func failure(t *testing.T, w *httptest.ResponseRecorder) (code, message string) {
	t.Helper()
	var body struct {
		Error struct{ Message, Type, Code string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	require.NotEmpty(t, body.Error.Type)
	return body.Error.Code, body.Error.Message
}

const (
	tabs     = `{"model":"conclave","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Tabs?"}]}`
	tabsLive = `{"model":"conclave","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Tabs?"}],"stream":true}`
)

func TestModels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		by     access.Caller
		listed []string
	}{
		"all teams":    {access.Caller{Name: "bob"}, []string{"conclave", "conclave/reviewers"}},
		"those of key": {callers.Alice, []string{"conclave/reviewers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.by, true)
			var out wire.ModelList
			require.NoError(t, json.Unmarshal(s.send(t.Context(), http.MethodGet, "/v1/models", "").Body.Bytes(), &out))
			var ids []string
			for _, m := range out.Data {
				ids = append(ids, m.ID)
				require.Equal(t, "model", m.Object)
				require.Equal(t, http.StatusOK, s.send(t.Context(), http.MethodGet, "/v1/models/"+m.ID, "").Code)
			}
			require.Equal(t, tc.listed, ids)
			gone := s.send(t.Context(), http.MethodGet, "/v1/models/gpt-5.2", "")
			require.Equal(t, http.StatusNotFound, gone.Code)
			_, why := failure(t, gone)
			require.Contains(t, why, `there is no model "gpt-5.2" for you; the models are `+strings.Join(tc.listed, ", "))
		})
	}
	s := newSite(t, callers.Alice, false)
	for path, method := range map[string]string{"/v1/chat/completions": http.MethodPost, "/v1/models": http.MethodGet, "/v1/models/conclave/reviewers": http.MethodGet} {
		w := s.send(t.Context(), http.MethodDelete, path, "")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, method, w.Header().Get("Allow"))
		code, why := failure(t, w)
		require.Equal(t, "method_not_allowed", code)
		require.Equal(t, path+" has no method DELETE; use "+method, why)
	}
	for _, path := range []string{"/v1/embeddings", "/v1/"} {
		w := s.send(t.Context(), http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, w.Code)
		code, why := failure(t, w)
		require.Equal(t, "unknown_url", code)
		require.Contains(t, why, "GET "+path+" is not served")
	}
}

// A reply has the session's ID and its page; the repeated request, streamed or not, costs nothing.
func TestComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob"}, false)
		s.answered("Tabs.")
		first := s.ask(tabs, "Idempotency-Key", "k")
		require.Equal(t, http.StatusOK, first.Code)
		var out wire.ChatCompletion
		require.NoError(t, json.Unmarshal(first.Body.Bytes(), &out))
		id := first.Header().Get("X-Conclave-Session")
		require.Equal(t, "conclave-"+id, out.ID)
		require.Equal(t, "<http://pages/sessions/"+id+`>; rel="alternate"; type="text/html"`, first.Header().Get("Link"))
		require.Equal(t, "Tabs.", *out.Choices[0].Message.Content)
		require.Equal(t, "stop", out.Choices[0].FinishReason)
		require.EqualValues(t, 42, out.Usage.TotalTokens)

		live := s.ask(tabsLive, "Idempotency-Key", "k")
		require.Equal(t, "text/event-stream", live.Header().Get("Content-Type"))
		require.Equal(t, id, live.Header().Get("X-Conclave-Session"))
		chunks, done := chunksOf(t, live.Body.String())
		require.True(t, done)
		require.EqualValues(t, 42, chunks[len(chunks)-1].Usage.TotalTokens)
		require.Equal(t, 1, s.played.Count())

		other := s.ask(strings.Replace(tabs, "Tabs?", "Vi?", 1), "Idempotency-Key", "k")
		require.Equal(t, http.StatusConflict, other.Code)
		require.Equal(t, "false", other.Header().Get("X-Should-Retry"))
	})
}

// The parts of a request reach the session: the team, the conversation, the depth, the tools.
func TestComplete_input(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, callers.Alice, false)
		body := `{"model":"conclave/reviewers","temperature":0.1,"metadata":{"session_id":"release-42","client_tools_for":"presenter"},
			"tools":[{"type":"function","function":{"name":"look"}}],"messages":[{"role":"user","content":"One?"},{"role":"assistant","content":"1."},{"role":"user","content":"Two?"}]}`
		var input sessionflow.Input
		go func() {
			begun := s.played.Begun(t)
			input = begun.Input
			begun.Decide("2.", llm.Usage{})
		}()
		w := s.ask(body, "X-Conclave-Depth", "2")
		require.Equal(t, "release-42", w.Header().Get("X-Conclave-Session"))
		require.Equal(t, "reviewers", input.Team)
		require.Equal(t, "Two?", input.Query)
		require.Equal(t, []artifact.Turn{{Query: "One?", Answer: "1."}}, input.History)
		require.Equal(t, 2, input.Depth)
		require.Equal(t, artifact.ForPresenter, input.ClientToolsFor)
		require.JSONEq(t, `[{"type":"function","function":{"name":"look"}}]`, string(input.ClientTools))
		require.Empty(t, input.Config, "a request defines no team")
	})
}

func TestComplete_refuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, callers.Alice, false)
	reviewers := func(more string) string {
		return `{"model":"conclave/reviewers","messages":[{"role":"user","content":"q"}]` + more + `}`
	}
	for want, tc := range map[string]struct {
		body   string
		header string
		status int
	}{
		"the body is not JSON":              {"{", "", 400},
		"the body is of type array":         {"[]", "", 400},
		"messages is of type string":        {`{"model":"conclave/reviewers","messages":"q"}`, "", 400},
		"messages.role is of type number":   {`{"model":"conclave/reviewers","messages":[{"role":1,"content":"q"}]}`, "", 400},
		"no text and no list of parts":      {`{"model":"conclave/reviewers","messages":[{"role":"user","content":{}}]}`, "", 400},
		"the request has no model":          {`{"messages":[]}`, "", 400},
		"the models are conclave/reviewers": {tabs, "", 404}, // Alice may not ask the default team
		`there is no model "reviewers"`:     {strings.Replace(tabs, "conclave", "reviewers", 1), "", 404},
		"n is not supported":                {reviewers(`,"n":2`), "", 400},
		"give auto, none, required":         {reviewers(`,"tools":[{"type":"function","function":{"name":"x"}}],"tool_choice":"always"`), "", 400},
		`client_tools_for is "me"`:          {reviewers(`,"tools":[{"type":"function","function":{"name":"x"}}],"metadata":{"client_tools_for":"me"}`), "", 400},
		"does a team ask itself?":           {reviewers(""), "4", 400},
		"X-Conclave-Depth is \"deep\"":      {reviewers(""), "deep", 400},
		"has no tool_call_id":               {`{"model":"conclave/reviewers","messages":[{"role":"user","content":"q"},{"role":"tool","content":"r"}]}`, "", 400},
		`"x" is not a call of this server`:  {`{"model":"conclave/reviewers","messages":[{"role":"tool","content":"r","tool_call_id":"x"}]}`, "", 400},
	} {
		w := s.ask(tc.body, "X-Conclave-Depth", tc.header)
		require.Equal(t, tc.status, w.Code, want)
		_, why := failure(t, w)
		require.Contains(t, why, want)
		require.Empty(t, w.Header().Get("X-Conclave-Session"))
	}
	require.Zero(t, s.played.Count())

	reads := newSite(t, access.Caller{Name: "bob"}, true)
	w := reads.ask(tabs)
	require.Equal(t, http.StatusForbidden, w.Code)
	code, _ := failure(t, w)
	require.Equal(t, "read_only", code)
	reads.key = "ck-wrong"
	require.Equal(t, http.StatusUnauthorized, reads.ask(tabs).Code)
}

// A key whose dollars for the day are spent gets a refusal that clients do not repeat.
func TestComplete_budget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob", USDPerDay: 0.25}, false)
		go func() {
			usd := 0.25
			s.played.Begun(t).Decide("Tabs.", llm.Usage{TotalUSD: &usd})
		}()
		require.Equal(t, http.StatusOK, s.ask(tabs, "Idempotency-Key", "k").Code)
		w := s.ask(tabs)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "false", w.Header().Get("X-Should-Retry"))
		code, why := failure(t, w)
		require.Equal(t, "insufficient_quota", code)
		require.Equal(t, "bob has spent $0.2500 of $0.25 for today (UTC)", why)
		require.Equal(t, http.StatusOK, s.ask(tabs, "Idempotency-Key", "k").Code, "what is paid is given")
	})
}

// The caller runs its tools between two requests, streamed or not.
func TestComplete_tools(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]string{"whole": "false", "streamed": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { toolsOf(t, streams) })
		})
	}
}

func toolsOf(t *testing.T, streams string) {
	s := newSite(t, access.Caller{Name: "bob"}, false)
	question := `{"role":"user","content":"Who is there?"}`
	body := func(messages string) string {
		return `{"model":"conclave","stream":` + streams + `,"messages":[` + messages + `],
			"tools":[{"type":"function","function":{"name":"look"}},{"type":"function","function":{"name":"read"}}]}`
	}
	begun := make(chan *callers.Session, 1)
	go func() {
		b := s.played.Begun(t)
		hash := artifact.SessionHash(b.ID)
		if err := artifact.CreateJSON(t.Context(), s.played.Store, artifact.CallPointer(hash), artifact.CalledSession{SessionID: b.ID}); err != nil {
			t.Error(err)
		}
		b.Ask(llm.Usage{InputTokens: 100, ModelCalls: 1},
			coordination.Call{ID: "c" + hash + "_l1_1", Name: "look", Arguments: `{"at":"door"}`},
			coordination.Call{ID: "c" + hash + "_l2_1", Name: "read", Arguments: `{}`})
		begun <- b
	}()
	calls, finish, used := callsIn(t, s.ask(body(question)), streams)
	require.Equal(t, "tool_calls", finish)
	require.EqualValues(t, 100, used.TotalTokens)
	require.Len(t, calls, 2)
	require.Equal(t, wire.Function{Name: "look", Arguments: `{"at":"door"}`}, calls[0].Function)
	require.Equal(t, "function", calls[1].Type)

	result := func(i int) string { return `,{"role":"tool","tool_call_id":"` + calls[i].ID + `","content":"r"}` }
	missing := s.ask(body(question + result(0)))
	require.Equal(t, http.StatusBadRequest, missing.Code)
	_, why := failure(t, missing)
	require.Contains(t, why, calls[1].ID+" are missing")
	whole := question + result(0) + result(1)
	for want, refused := range map[string]string{
		`message 4 has the role "system"`:     body(whole + `,{"role":"system","content":"Be brief."}`),
		"are both the result of the call":     body(whole + result(1)),
		"give auto with the results":          strings.Replace(body(whole), `"tools":`, `"tool_choice":"none","tools":`, 1),
		"keeps its tools and the form":        strings.Replace(body(whole), `"tools":`, `"tool_choice":"required","tools":`, 1),
		`there is no model "conclave/nobody"`: strings.Replace(body(whole), `"conclave"`, `"conclave/nobody"`, 1),
		`tool_call_id "call_1" is not a call`: body(question + `,{"role":"tool","tool_call_id":"call_1","content":"r"}`),
	} {
		w := s.ask(refused)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, w.Code)
		_, why := failure(t, w)
		require.Contains(t, why, want)
	}
	b := <-begun
	require.Empty(t, b.Updates())
	b.Decide("A cat.", llm.Usage{InputTokens: 130, ModelCalls: 3})
	w := s.ask(body(whole))
	require.Equal(t, b.ID, w.Header().Get("X-Conclave-Session"))
	require.Contains(t, w.Body.String(), "A cat.")
	require.Equal(t, 1, s.played.Count(), "the results name their session, without a key")
}

// callsIn returns the calls of a reply, as a client reads them.
func callsIn(t *testing.T, w *httptest.ResponseRecorder, streams string) (calls []wire.ToolCall, finish string, used wire.ChatUsage) {
	t.Helper()
	if streams == "false" {
		var out wire.ChatCompletion
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), w.Body.String())
		require.Nil(t, out.Choices[0].Message.Content)
		return out.Choices[0].Message.ToolCalls, out.Choices[0].FinishReason, out.Usage
	}
	chunks, done := chunksOf(t, w.Body.String())
	require.True(t, done)
	for _, c := range chunks {
		for i, call := range c.Choices[0].Delta.ToolCalls {
			require.Equal(t, i, *call.Index, "clients join the parts of a call by its index")
			calls = append(calls, call)
		}
		require.Empty(t, c.Choices[0].Delta.Content)
	}
	last := chunks[len(chunks)-1]
	return calls, *last.Choices[0].FinishReason, *last.Usage
}

// A stream has the progress while the session runs, and comments while nothing happens.
func TestStream_session(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob"}, false)
		go func() {
			begun := s.played.Begun(t)
			begun.Report("agent_a answered agent1.1")
			time.Sleep(5 * time.Minute)
			begun.Report("agent_b voted for agent1.1")
			begun.Decide(strings.Repeat("Tabs. ", 500), llm.Usage{})
		}()
		began := time.Now()
		w := s.ask(tabsLive)
		require.Less(t, time.Since(began), 5*time.Minute+lastKeepAlive)
		text, reasoning := "", ""
		chunks, done := chunksOf(t, w.Body.String())
		require.True(t, done)
		for _, c := range chunks {
			text += c.Choices[0].Delta.Content
			reasoning += c.Choices[0].Delta.Reasoning
		}
		require.Equal(t, strings.Repeat("Tabs. ", 500), text)
		require.Equal(t, "agent_a answered agent1.1\nagent_b voted for agent1.1\n", reasoning)
		require.GreaterOrEqual(t, strings.Count(w.Body.String(), ": the session goes on"), 30, "at least every ten seconds")
	})
}

const lastKeepAlive = 10 * time.Second

// The error of a session that has begun to stream is its last event.
func TestStream_fails(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(site, *callers.Session){
		`"code":"session_failed"`: func(_ site, b *callers.Session) {
			b.End(sessionflow.Result{Status: "failed", Error: &artifact.Error{Message: "no model answers"}})
		},
		`"code":"invalid_input"`: func(_ site, b *callers.Session) {
			b.End(sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: workflows.InvalidInput, Message: "no query"}})
		},
		`"code":"session_undecided"`: func(_ site, b *callers.Session) { b.End(sessionflow.Result{Status: "undecided", Winner: "agent_a"}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, access.Caller{Name: "bob"}, false)
			go func() { end(s, s.played.Begun(t)) }()
			w := s.ask(tabsLive)
			require.Equal(t, http.StatusOK, w.Code)
			_, last, _ := strings.Cut(w.Body.String(), `data: {"error":`)
			require.Contains(t, last, want)
			require.NotContains(t, w.Body.String(), "[DONE]")
		})
	}
}

// A broken connection cancels nothing, and the request that the official clients repeat joins the
// session.
func TestComplete_breaksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob"}, false)
		for _, body := range []string{tabs, tabsLive} {
			ctx, breaks := context.WithCancel(t.Context())
			broken := make(chan *httptest.ResponseRecorder)
			go func() { broken <- s.send(ctx, http.MethodPost, "/v1/chat/completions", body) }()
			begun := s.played.Begun(t)
			breaks()
			require.NotContains(t, (<-broken).Body.String(), "Tabs.")
			synctest.Wait()
			require.Empty(t, begun.Updates())
			begun.Decide("Tabs.", llm.Usage{})
			again := s.ask(body, "X-Stainless-Retry-Count", "1")
			require.Equal(t, begun.ID, again.Header().Get("X-Conclave-Session"))
			require.Contains(t, again.Body.String(), "Tabs.")
		}
		require.Equal(t, 2, s.played.Count())
	})
}

// A server that cannot reach Temporal asks clients to repeat the request.
func TestComplete_unavailable(t *testing.T) {
	t.Parallel()
	s := newSite(t, access.Caller{Name: "bob"}, false)
	s.played.Leave(errors.New("no connection"))
	w := s.ask(tabs)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Empty(t, w.Header().Get("X-Should-Retry"))
	code, why := failure(t, w)
	require.Equal(t, "unavailable", code)
	require.Equal(t, "start the session: no connection; send the request again", why)
}

// A pasted picture is stored and shown with the question, in the form of each protocol.
func TestComplete_pictures(t *testing.T) {
	t.Parallel()
	var drawn bytes.Buffer
	require.NoError(t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 2, 2))))
	data := base64.StdEncoding.EncodeToString(drawn.Bytes())
	url := "data:image/png;base64," + data
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"conclave/reviewers","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`,
		"/v1/responses":        `{"model":"conclave/reviewers","input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_image","image_url":"` + url + `"}]}]}`,
		"/v1/messages":         `{"model":"conclave/reviewers","max_tokens":99,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}},{"type":"text","text":"What is it?"}]}]}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, callers.Alice, false)
			asked := make(chan sessionflow.Input, 1)
			go func() {
				begun := s.played.Begun(t)
				asked <- begun.Input
				begun.Decide("A square.", llm.Usage{})
			}()
			w := s.send(t.Context(), http.MethodPost, path, body)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			input := <-asked
			require.Equal(t, "What is it?", input.Query)
			require.Len(t, input.Images, 1)
			require.Equal(t, "01/picture-1", input.Images[0].Path)
		})
	}
	s := newSite(t, callers.Alice, false)
	for want, part := range map[string]string{
		"nothing is fetched from an address":  `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`,
		"is no data URL and no base64":        `{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}`,
		"it is not a PNG, JPEG":               `{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}`,
		"neither a PDF nor text":              `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}}`,
		`"a.pdf" of message 1 cannot be read`: `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`,
		"from an address or a store":          `{"type":"input_file","file_id":"file-1"}`,
	} {
		w := s.ask(`{"model":"conclave/reviewers","messages":[{"role":"user","content":[{"type":"text","text":"q"},` + part + `]}]}`)
		require.Equal(t, http.StatusBadRequest, w.Code, want)
		_, why := failure(t, w)
		require.Contains(t, why, want)
	}
	require.Zero(t, s.played.Count())
}
