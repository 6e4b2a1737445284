package chat

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
	sessionflow "conclave/workflows/session"
)

// asked is what a team would be asked by a request.
type asked struct {
	query, instructions, presenter string
	history                        []artifact.Turn
	results                        []coordination.ToolResult
	tools, ignored                 string
}

func readAsked(t *testing.T, p protocol, body string) asked {
	t.Helper()
	in, err := p.decode([]byte(body))
	require.NoError(t, err)
	out := asked{tools: string(in.tools), presenter: in.metadata[toolsFor], ignored: strings.Join(in.ignored, " ")}
	out.results, err = resultsOf(in.messages)
	require.NoError(t, err)
	if len(out.results) == 0 {
		query, instructions, history, err := splitMessages(in.messages)
		require.NoError(t, err)
		out.query, out.instructions, out.history = query.Text, instructions, history
	}
	return out
}

// Each protocol says the same in its own form.
func TestProtocol_decode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		protocol
		body string
		want asked
	}{
		"a text": {
			responses{},
			`{"model":"conclave","input":"Tabs?","instructions":"Be brief.","temperature":0.2,"store":false}`,
			asked{query: "Tabs?", instructions: "Be brief.", presenter: "presenter", ignored: "store temperature"},
		},
		"items of earlier turns": {
			responses{},
			`{"model":"conclave","metadata":{"client_tools_for":"all"},"input":[{"role":"developer","content":"In French."},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"1+1?"}]},{"type":"reasoning","id":"rs_1","summary":[]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"2"}]},{"role":"user","content":"Sure?"}]}`,
			asked{query: "Sure?", instructions: "In French.", history: []artifact.Turn{{Query: "1+1?", Answer: "2"}}, presenter: "all"},
		},
		"outputs of tools": {
			responses{},
			`{"model":"conclave","input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
			{"type":"custom_tool_call","call_id":"c2","name":"g","input":"x"},{"type":"function_call_output","call_id":"c1","output":"1"},
			{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},{"role":"user","content":"Hurry."}]}`,
			asked{presenter: "presenter", results: []coordination.ToolResult{{ID: "c1", Content: "1"}, {ID: "c2", Content: "2\n\nHurry."}}},
		},
		"tools of a service": {
			responses{},
			`{"model":"conclave","input":"q","tools":[{"type":"web_search"},{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},{"type":"function","name":"g"}]}`,
			asked{
				query: "q", presenter: "presenter", ignored: "tools.web_search",
				tools: `[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g","description":"","parameters":null}}]`,
			},
		},
		"blocks": {
			messages{},
			`{"model":"conclave","max_tokens":9,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"top_k":3,
			"messages":[{"role":"user","content":"1+1?"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"2"}]},
			{"role":"user","content":[{"type":"text","text":"Sure?"}]}]}`,
			asked{query: "Sure?", instructions: "Be brief.", history: []artifact.Turn{{Query: "1+1?", Answer: "2"}}, presenter: "presenter", ignored: "top_k"},
		},
		"results in blocks": {
			messages{},
			`{"model":"conclave","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
			"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"no"}],"is_error":true},{"type":"text","text":"Go on."}]}]}`,
			asked{
				presenter: "presenter", ignored: "tools.web_search_20250305", tools: `[{"type":"function","function":{"name":"f","description":"","parameters":{"type":"object"}}}]`,
				results: []coordination.ToolResult{{ID: "c1", Content: "error: no\n\nGo on."}},
			},
		},
		"a picture of an earlier turn": {
			completions{},
			`{"model":"conclave","messages":[{"role":"user","content":[{"type":"text","text":"See"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":"Yes."},{"role":"user","content":"And?"}]}`,
			asked{query: "And?", history: []artifact.Turn{{Query: "See\n[an earlier image, not shown again]", Answer: "Yes."}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, readAsked(t, tc.protocol, tc.body))
		})
	}
}

func TestProtocol_refuses(t *testing.T) {
	t.Parallel()
	for want, tc := range map[string]struct {
		protocol
		body string
	}{
		"the value of temperature is 3; give one from 0 to 2": {completions{}, `{"model":"conclave","messages":[{"role":"user","content":"q"}],"temperature":3}`},
		"the value of max_tokens is 0; give one from 1":       {completions{}, `{"model":"conclave","messages":[{"role":"user","content":"q"}],"max_tokens":0}`},
		"the value of stop is neither a text nor a list":      {completions{}, `{"model":"conclave","messages":[{"role":"user","content":"q"}],"stop":["a","b","c","d","e"]}`},
		"the request has no max_tokens":                       {messages{}, `{"model":"conclave","messages":[{"role":"user","content":"q"}]}`},
		"the value of temperature is 2; give one from 0 to 1": {messages{}, `{"model":"conclave","max_tokens":1,"temperature":2,"messages":[{"role":"user","content":"q"}]}`},
		`"resp" is not the id of a response of this server`:   {responses{}, `{"model":"conclave","input":"q","previous_response_id":"resp"}`},
		"the request has no input":                            {responses{}, `{"model":"conclave"}`},
		`item 1 has the type "picture"`:                       {responses{}, `{"model":"conclave","input":[{"type":"picture"}]}`},
		"item 1, the output of a tool, has no call_id":        {responses{}, `{"model":"conclave","input":[{"type":"function_call_output","output":"x"}]}`},
		"give previous_response_id, or the whole input":       {responses{}, `{"model":"conclave","input":"q","conversation":"c"}`},
		`a part of the type "document file"`:                  {messages{}, `{"model":"conclave","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file"}}]}]}`},
	} {
		_, err := tc.decode([]byte(tc.body))
		require.ErrorContains(t, err, want)
	}
}

// An answer ends before the first stop text, and at its limit; calls are never cut.
func TestNewReply(t *testing.T) {
	t.Parallel()
	cut := func(want wish, text string) (string, string, ending) {
		r := newReply(want, replied(text))
		return r.answer, r.sequence, r.ending
	}
	for name, tc := range map[string]struct {
		want             wish
		answer, sequence string
		ending           ending
	}{
		"whole":              {wish{}, "one END two STOP", "", endedAlone},
		"the first of two":   {wish{stops: []string{"STOP", "END"}}, "one ", "END", endedBySequence},
		"a limit":            {wish{limit: 1}, "one ", "", endedByLength},
		"a limit that holds": {wish{limit: 9}, "one END two STOP", "", endedAlone},
	} {
		answer, sequence, end := cut(tc.want, "one END two STOP")
		require.Equal(t, tc.answer, answer, name)
		require.Equal(t, tc.sequence, sequence, name)
		require.Equal(t, tc.ending, end, name)
	}
}

// eventsOf returns the types of the events of a stream, and its text.
func eventsOf(t *testing.T, w *httptest.ResponseRecorder) (types []string, text string) {
	t.Helper()
	lines := bufio.NewScanner(w.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string          `json:"type"`
			Delta json.RawMessage `json:"delta"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		var delta string
		var block struct{ Text string }
		_ = json.Unmarshal(e.Delta, &block)
		if json.Unmarshal(e.Delta, &delta) == nil && strings.Contains(e.Type, "output_text") {
			block.Text = delta
		}
		text += block.Text
	}
	return types, text
}

// Streams have the events that the official clients wait for, in their order.
func TestProtocol_streams(t *testing.T) {
	t.Parallel()
	for path, tc := range map[string]struct {
		body   string
		events []string
	}{
		"/v1/responses": {`{"model":"conclave","input":"Tabs?","stream":true}`, []string{
			"response.created", "response.in_progress", "response.output_item.added", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
			"response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "response.output_item.done", "response.output_item.added",
			"response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
		}},
		"/v1/messages": {`{"model":"conclave","max_tokens":100,"stream":true,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"Tabs?"}]}`, []string{
			"message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop",
			"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, access.Caller{Name: "bob"}, false)
			go func() {
				b := s.played.Begun(t)
				b.Report("agent_a answered agent1.1")
				b.Decide("Tabs.", llm.Usage{InputTokens: 30, CachedInputTokens: 10, OutputTokens: 12})
			}()
			w := s.send(t.Context(), http.MethodPost, path, tc.body)
			types, text := eventsOf(t, w)
			require.Equal(t, tc.events, types)
			require.Equal(t, "Tabs.", text)
		})
	}
}

// A response of the background is fetched, gone on with, and cancelled by its id.
func TestResponses_background(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob"}, false)
		ask := func(method, path, body string) (out wire.Response) {
			w := s.send(t.Context(), method, path, body)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
			return out
		}
		first := ask(http.MethodPost, "/v1/responses", `{"model":"conclave","input":"Tabs?","background":true}`)
		require.Equal(t, wire.StatusInProgress, first.Status)
		begun := s.played.Begun(t)
		require.Equal(t, "resp_"+begun.ID, first.ID)
		begun.Decide("Tabs.", llm.Usage{InputTokens: 30})
		fetched := ask(http.MethodGet, "/v1/responses/"+first.ID, "")
		require.Equal(t, wire.StatusCompleted, fetched.Status)
		require.Equal(t, "Tabs.", fetched.Output[0].Content[0].Text)
		require.EqualValues(t, 30, fetched.Usage.InputTokens)

		go func() { s.played.Begun(t).Decide("Still.", llm.Usage{}) }()
		next := ask(http.MethodPost, "/v1/responses", `{"model":"conclave","input":"Sure?","previous_response_id":"`+first.ID+`"}`)
		require.Equal(t, "Still.", next.Output[0].Content[0].Text)
		require.Equal(t, http.StatusNotFound, s.send(t.Context(), http.MethodGet, "/v1/responses/resp_other", "").Code)

		failing := ask(http.MethodPost, "/v1/responses", `{"model":"conclave","input":"Spaces?","background":true}`)
		s.played.Begun(t).End(sessionflow.Result{Status: "failed", Error: &artifact.Error{Message: "no model answers"}})
		failed := ask(http.MethodGet, "/v1/responses/"+failing.ID, "")
		require.Equal(t, wire.StatusFailed, failed.Status)
		require.Contains(t, failed.Error.Message, "no model answers")
	})
}

// Refusals of Messages have Anthropic's form, those of the gate too.
func TestMessages_refusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, access.Caller{Name: "bob"}, false)
	kind := func(w *httptest.ResponseRecorder) string {
		var out wire.MessageFailure
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), w.Body.String())
		require.Equal(t, "error", out.Type)
		return out.Error.Type
	}
	require.Equal(t, "invalid_request_error", kind(s.send(t.Context(), http.MethodPost, "/v1/messages", `{}`)))
	require.Equal(t, "not_found_error", kind(s.send(t.Context(), http.MethodPost, "/v1/messages", `{"model":"x","max_tokens":1,"messages":[{"role":"user","content":"q"}]}`)))
	counted := s.send(t.Context(), http.MethodPost, "/v1/messages/count_tokens", `{"model":"conclave","messages":[{"role":"user","content":"`+strings.Repeat("word ", 300)+`"}]}`)
	require.Contains(t, counted.Body.String(), `"estimate":true`)
	s.key = "wrong"
	require.Equal(t, "authentication_error", kind(s.send(t.Context(), http.MethodPost, "/v1/messages", `{}`)))
}

func replied(text string) gateway.Reply { return gateway.Reply{Answer: text} }
