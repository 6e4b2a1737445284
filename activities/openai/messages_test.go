package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// anthropicServer refuses requests that break the published rules of Messages, and keeps prefixes as its cache does.
type anthropicServer struct {
	replies [][]string // events of each reply

	mu    sync.Mutex
	asked []map[string]any
	sizes []int // bytes of each prompt
	read  []int // bytes of it that were read from the cache
	kept  map[string]bool
}

// serve answers one request.
func (s *anthropicServer) serve(res http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res.Header().Set("Content-Type", "text/event-stream")
	body, _ := io.ReadAll(req.Body)
	if why := s.fault(req, body); why != "" {
		res.Header().Set("Content-Type", "application/json")
		res.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(res, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, why)
		return
	}
	n := len(s.asked) - 1
	for _, e := range s.replies[min(n, len(s.replies)-1)] {
		e = strings.ReplaceAll(e, "READ", fmt.Sprint(s.read[n]))
		_, _ = io.WriteString(res, "event: x\ndata: "+e+"\n\n")
	}
}

var toolNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// fault returns the rule that a request breaks, and counts the prefix that the cache has.
func (s *anthropicServer) fault(req *http.Request, body []byte) string {
	var typed anthropic.MessageNewParams
	var raw map[string]any
	switch {
	case req.URL.Path != "/v1/messages" || req.Header.Get("X-Api-Key") != "k" || req.Header.Get("Anthropic-Version") == "":
		return "not a request of this service: " + req.URL.Path
	case json.Unmarshal(body, &typed) != nil || json.Unmarshal(body, &raw) != nil:
		return "the official types cannot read the body"
	case typed.MaxTokens < 1 || len(typed.Messages) == 0 || typed.Messages[0].Role != "user":
		return "max_tokens and a first message of the user are required"
	case bytes.Count(body, []byte(`"cache_control"`)) > 4:
		return "at most 4 blocks with cache_control"
	case bytes.Contains(body, []byte(`"text":""`)):
		return "text content blocks must be non-empty"
	}
	for _, t := range typed.Tools {
		if !toolNames.MatchString(t.OfTool.Name) || len(t.OfTool.InputSchema.ExtraFields)+len(fmt.Sprint(t.OfTool.InputSchema.Properties)) == 0 {
			return "tools need a name and a schema"
		}
	}
	var open []string
	for i, m := range typed.Messages {
		if i > 0 && typed.Messages[i-1].Role == m.Role {
			return "roles alternate"
		}
		for n, b := range m.Content {
			switch {
			case b.OfThinking != nil && (n > 0 || b.OfThinking.Signature != "sig "+b.OfThinking.Thinking):
				return "thinking blocks come first and unchanged"
			case b.OfToolUse != nil:
				open = append(open, b.OfToolUse.ID)
			case b.OfToolResult != nil && (n >= len(open) && !slices.Contains(open, b.OfToolResult.ToolUseID)):
				return "a tool_result without its tool_use"
			case b.OfToolResult != nil:
				open = slices.DeleteFunc(open, func(id string) bool { return id == b.OfToolResult.ToolUseID })
			case m.Role == "user" && len(open) > 0:
				return "tool_use without a tool_result right after it"
			}
		}
	}
	s.asked = append(s.asked, raw)
	s.countCached(raw)
	return ""
}

// countCached reads the longest kept prefix at a mark and keeps the prefixes at all marks.
func (s *anthropicServer) countCached(raw map[string]any) {
	var prompt strings.Builder
	longest := 0
	var marks []string
	add := func(block any) {
		object, _ := block.(map[string]any)
		_, marked := object["cache_control"]
		delete(object, "cache_control")
		data, _ := json.Marshal(object)
		prompt.Write(data)
		if marked {
			marks = append(marks, prompt.String())
		}
		if s.kept[prompt.String()] {
			longest = prompt.Len()
		}
	}
	for _, key := range []string{"tools", "system"} {
		list, _ := raw[key].([]any)
		for _, b := range list {
			add(b)
		}
	}
	list, _ := raw["messages"].([]any)
	for _, m := range list {
		blocks, _ := m.(map[string]any)["content"].([]any)
		for _, b := range blocks {
			add(b)
		}
	}
	if s.kept == nil {
		s.kept = map[string]bool{}
	}
	for _, m := range marks {
		s.kept[m] = true
	}
	s.sizes, s.read = append(s.sizes, prompt.Len()), append(s.read, longest)
}

// block returns the events of a block of a reply.
func block(index int, begin string, deltas ...string) (events []string) {
	events = append(events, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, begin))
	for _, d := range deltas {
		events = append(events, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d))
	}
	return append(events, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
}

// said returns the events of a reply.
func said(reason string, blocks ...[]string) []string {
	events := []string{`{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":READ,"output_tokens":1}}}`, `{"type":"ping"}`}
	for _, b := range blocks {
		events = append(events, b...)
	}
	return append(events, `{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`)
}

func thinks(index int, words string) []string {
	return block(index, `{"type":"thinking","thinking":"","signature":""}`, fmt.Sprintf(`{"type":"thinking_delta","thinking":%q}`, words), fmt.Sprintf(`{"type":"signature_delta","signature":"sig %s"}`, words))
}

func speaks(index int, words string) []string {
	return block(index, `{"type":"text","text":""}`, fmt.Sprintf(`{"type":"text_delta","text":%q}`, words[:1]), fmt.Sprintf(`{"type":"text_delta","text":%q}`, words[1:]))
}

func uses(index int, id string) []string {
	return block(index, `{"type":"tool_use","id":"`+id+`","name":"read_file","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"path\":"}`, `{"type":"input_json_delta","partial_json":"\"a.txt\"}"}`)
}

// atMessages returns a client of the server.
func atMessages(t *testing.T, s *anthropicServer, params map[string]any) *openai.Client {
	t.Helper()
	client, _ := serve(t, openai.Options{Wire: openai.MessagesWire, APIKey: "k", Model: "claude-x", Params: params}, s.serve)
	return client
}

// An agent thinks, calls tools, hears a message of the user between them and ends. Its thoughts come back as they were,
// and from the second call on nearly all of the request before is read from the cache.
func TestMessages_conversation(t *testing.T) {
	t.Parallel()
	s := &anthropicServer{}
	for i := range 5 {
		s.replies = append(s.replies, said("tool_use", thinks(0, fmt.Sprint("thought ", i)), block(1, `{"type":"redacted_thinking","data":"xyz"}`), speaks(2, "Look."), uses(3, fmt.Sprint("call_", i, "a")), uses(4, fmt.Sprint("call_", i, "b"))))
	}
	s.replies = append(s.replies, said("end_turn", speaks(0, "Done.")))
	client := atMessages(t, s, map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}, "max_completion_tokens": 2000, "stop": "END"})
	req := llm.Request{
		Messages: []llm.Message{{Role: llm.System, Content: strings.Repeat("Be exact. ", 600)}, {Role: llm.User, Content: strings.Repeat("The question. ", 600)}, {Role: llm.User, Content: "The answers."}},
		Tools:    []llm.Tool{llm.NewTool("read_file", "Read a file.", map[string]llm.Property{"path": {Type: "string"}}, "path")},
	}
	var usage llm.Usage
	for i := range 6 {
		reply, err := client.Generate(t.Context(), req)
		require.NoError(t, err)
		usage = usage.Add(reply.Usage)
		req.Messages = append(req.Messages, reply.Message)
		for n, call := range reply.Message.ToolCalls {
			require.JSONEq(t, `{"path":"a.txt"}`, call.Arguments)
			req.Messages = append(req.Messages, call.Result(strings.Repeat("line\n", 40*(n+1))))
		}
		if i == 2 {
			req.Messages = append(req.Messages, llm.Message{Role: llm.User, Content: "And look at b.txt."})
		}
		if i > 0 {
			require.GreaterOrEqual(t, s.read[i]*10, s.sizes[i-1]*9, "call %d", i+1)
		}
	}
	last := req.Messages[len(req.Messages)-1]
	require.Equal(t, "Done.", last.Content)
	require.Equal(t, []any{float64(2000), []any{"END"}, true}, []any{s.asked[0]["max_tokens"], s.asked[0]["stop_sequences"], s.asked[0]["stream"]})
	require.Equal(t, int64(6), usage.ModelCalls)
	require.Equal(t, int64(6*15)+usage.CachedInputTokens, usage.InputTokens)
	require.Equal(t, int64(30), usage.CacheWriteTokens)
	require.Equal(t, int64(42), usage.OutputTokens)
}

// A stream that is cut at any event is a failure of the network whose usage counts, never an answer.
func TestMessages_cutStream(t *testing.T) {
	t.Parallel()
	whole := said("tool_use", thinks(0, "so"), speaks(1, "Look."), uses(2, "call_1"))
	for n := range len(whole) - 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := atMessages(t, &anthropicServer{replies: [][]string{whole[:n]}}, nil)
				reply, err := client.Generate(t.Context(), hello)
				failed := &llm.Error{}
				require.ErrorAs(t, err, &failed)
				require.Equal(t, llm.Network, failed.Kind)
				if n > 0 {
					require.Positive(t, reply.Usage.ModelCalls)
				}
			})
		})
	}
}

func TestMessages_ends(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply []string
		kind  llm.Kind
		says  string
	}{
		"the token limit":      {said("max_tokens", speaks(0, "Lo")), llm.BadReply, "raise max_tokens"},
		"a refusal":            {said("refusal"), llm.ContentPolicy, "refused"},
		"an error in a stream": {[]string{`{"type":"message_start","message":{"usage":{"input_tokens":3}}}`, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`}, llm.BadRequest, "no"},
		"no JSON":              {[]string{`{"type":`}, llm.BadReply, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := atMessages(t, &anthropicServer{replies: [][]string{tc.reply}}, nil).Generate(t.Context(), hello)
			failed := &llm.Error{}
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.kind, failed.Kind)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// Overload and limits are waited out; a bad key is not.
func TestMessages_errors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &anthropicServer{replies: [][]string{said("end_turn", speaks(0, "Hi."))}}
		fault := func(status int, kind string) http.HandlerFunc {
			return rawFields(status, `{"type":"error","error":{"type":"`+kind+`","message":"`+kind+`"}}`, "Retry-After", "7")
		}
		client, w := serve(t, openai.Options{Wire: openai.MessagesWire, APIKey: "k"}, fault(529, "overloaded_error"), fault(429, "rate_limit_error"), s.serve)
		began := time.Now()
		reply, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, "Hi.", reply.Message.Content)
		require.Len(t, w.seen(), 3)
		require.GreaterOrEqual(t, time.Since(began), 14*time.Second)

		client, _ = serve(t, openai.Options{Wire: openai.MessagesWire, APIKey: "k"}, fault(401, "authentication_error"))
		_, err = client.Generate(t.Context(), hello)
		failed := &llm.Error{}
		require.ErrorAs(t, err, &failed)
		require.Equal(t, llm.AuthFailed, failed.Kind)
	})
}

// A whole reply, pictures, a form, texts without a character and IDs of another service.
func TestMessages_request(t *testing.T) {
	t.Parallel()
	s := &anthropicServer{replies: [][]string{{`{"type":"message","content":[{"type":"text","text":"Hi."},{"type":"tool_use","id":"t1","name":"rate","input":{"score":3}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}`}}}
	client := atMessages(t, s, map[string]any{"stream": false})
	reply, err := client.Generate(t.Context(), llm.Request{
		Messages: []llm.Message{
			{Role: llm.System},
			{Role: llm.User, Content: " ", Images: []llm.Image{{MediaType: "image/png", Data: []byte("png")}}},
			{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "call:1", Name: "look", Arguments: "no JSON"}}},
			{Role: llm.ToolRole, ToolCallID: "call:1"},
			{Role: llm.User, Content: "Go on."},
		},
		Form: &llm.Form{Name: "rate", Schema: json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}}}`)},
	})
	require.NoError(t, err)
	require.Equal(t, "Hi.", reply.Message.Content)
	require.Equal(t, []llm.ToolCall{{ID: "t1", Name: "rate", Arguments: `{"score":3}`}}, reply.Message.ToolCalls)
	require.Equal(t, llm.Usage{InputTokens: 3, OutputTokens: 2, ModelCalls: 1}, reply.Usage)
	require.NotContains(t, s.asked[0], "stream")
	data, err := json.Marshal(s.asked[0]["messages"])
	require.NoError(t, err)
	for _, part := range []string{`"source":{"data":"cG5n","media_type":"image/png","type":"base64"}`, `"id":"call_1"`, `"invalid_arguments":"no JSON"`, `"tool_use_id":"call_1"`} {
		require.Contains(t, string(data), part)
	}

	_, err = openai.New(openai.Options{Wire: openai.MessagesWire, BaseURL: "https://a.test/v1", Model: "m", Params: map[string]any{"seed": 1}})
	require.ErrorContains(t, err, "seed in params of model m has no counterpart in the form of messages; remove it, or set wire: chat")
}

// The agents of a wave read what they share from the cache, though each has an end of its own.
func TestMessages_shared(t *testing.T) {
	t.Parallel()
	s := &anthropicServer{replies: [][]string{said("end_turn", speaks(0, "Hi."))}}
	client := atMessages(t, s, nil)
	shared := strings.Repeat("The question and the answers. ", 300)
	for i, own := range []string{"You are careful.", "You are bold."} {
		reply, err := client.Generate(t.Context(), llm.Request{Messages: []llm.Message{
			{Role: llm.System, Content: "Be exact."}, {Role: llm.User, Content: shared + own, Shared: len(shared)},
		}})
		require.NoError(t, err)
		require.Equal(t, i > 0, reply.Usage.CachedInputTokens > int64(len(shared)))
	}
}

// A server gets the key that its backend names, and nothing of the environment.
func TestMessages_environment(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"} {
		t.Setenv(name, "sk-of-another")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	client, w := serve(t, openai.Options{Wire: openai.MessagesWire}, rawFields(401, `{"type":"error","error":{"type":"authentication_error","message":"no key"}}`))
	_, err := client.Generate(t.Context(), hello)
	require.ErrorContains(t, err, "no key")
	for name, values := range w.seen()[0].header {
		require.NotContains(t, strings.Join(values, " "), "sk-of-another", name)
	}
}
