package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// responsesServer refuses requests that break the published rules of Responses.
type responsesServer struct {
	replies [][]string // events of each reply
	plain   bool       // the model has no thoughts: it refuses to include them

	mu    sync.Mutex
	asked []string
}

func (s *responsesServer) serve(res http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(req.Body)
	if why := s.fault(req, body); why != "" {
		res.Header().Set("Content-Type", "application/json")
		res.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(res, `{"error":{"type":"invalid_request_error","message":%q}}`, why)
		return
	}
	s.asked = append(s.asked, string(body))
	res.Header().Set("Content-Type", "text/event-stream")
	for i, e := range s.replies[min(len(s.asked), len(s.replies))-1] {
		_, _ = fmt.Fprintf(res, "event: x\ndata: %s\n\n", strings.Replace(e, "{", fmt.Sprintf(`{"sequence_number":%d,`, i), 1))
	}
}

// fault returns the rule that a request breaks.
func (s *responsesServer) fault(req *http.Request, body []byte) string {
	var typed responses.ResponseNewParams
	var raw struct {
		Input []struct {
			Type, Role string
			CallID     string `json:"call_id"`
			Encrypted  string `json:"encrypted_content"`
		}
		Tools []struct {
			Type       string
			Parameters map[string]any
		}
	}
	switch {
	case !strings.HasSuffix(req.URL.Path, "/responses") || req.Header.Get("Authorization") != "Bearer k":
		return "not a request of this service: " + req.URL.Path
	case json.Unmarshal(body, &typed) != nil || json.Unmarshal(body, &raw) != nil:
		return "the official types cannot read the body"
	case typed.Store.Value || len(raw.Input) == 0:
		return "store is false, and there is some input"
	case s.plain && len(typed.Include) > 0:
		return "Encrypted content is not supported with this model."
	}
	for _, t := range raw.Tools {
		if t.Type != "function" || t.Parameters == nil {
			return "Missing required parameter: 'tools[0].parameters'."
		}
	}
	var open []string
	thought := false
	for _, item := range raw.Input {
		switch {
		case item.Type == "reasoning" && !strings.HasPrefix(item.Encrypted, "sealed "):
			return "Item of type 'reasoning' was not found. Items are not persisted when `store` is set to false."
		case item.Type == "reasoning":
			thought = true
			continue
		case item.Type == "function_call":
			open = append(open, item.CallID)
		case item.Type == "function_call_output" && !slices.Contains(open, item.CallID):
			return "No tool call found for function call output"
		case item.Type == "function_call_output":
			open = slices.DeleteFunc(open, func(id string) bool { return id == item.CallID })
		case item.Role == "user" && len(open) > 0:
			return "No tool output found for function call " + open[0]
		case item.Role == "user" && thought:
			return "Item of type 'reasoning' was provided without its required following item."
		}
		thought = false
	}
	return ""
}

// responds returns the events of a reply with these items.
func responds(status string, items ...string) []string {
	events := []string{`{"type":"response.created","response":{"status":"in_progress","output":[]}}`}
	for _, item := range items {
		events = append(events, `{"type":"response.output_item.added","item":`+item+`}`, `{"type":"response.output_text.delta","delta":"Lo"}`, `{"type":"response.output_item.done","item":`+item+`}`)
	}
	end := map[string]string{"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}[status]
	details := map[string]string{"incomplete": `{"reason":"max_output_tokens"}`}[status]
	if details == "" {
		details = "null"
	}
	usage := `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":5}}`
	return append(events, `{"type":"`+end+`","response":{"status":"`+status+`","error":null,"output":[`+strings.Join(items, ",")+`],"incomplete_details":`+details+`,"usage":`+usage+`}}`)
}

func reasons(n int) string {
	return fmt.Sprintf(`{"type":"reasoning","id":"rs_%d","summary":[],"encrypted_content":"sealed %d","status":null}`, n, n)
}

func invokes(n int) string {
	return fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"read_file","arguments":"{\"path\":\"a.txt\"}","status":"completed"}`, n, n)
}

func utters(words string) string {
	return `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"` + words + `","annotations":[]}],"status":"completed"}`
}

func atResponses(t *testing.T, s *responsesServer, params map[string]any) *openai.Client {
	t.Helper()
	client, _ := serve(t, openai.Options{Wire: openai.ResponsesWire, APIKey: "k", Params: params}, s.serve)
	return client
}

// Sealed thoughts come back as they were, calls are answered, and params have their names here.
func TestResponses_conversation(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		s := &responsesServer{plain: plain}
		for i := range 3 {
			s.replies = append(s.replies, responds("completed", reasons(i), utters("Look."), invokes(i)))
		}
		s.replies = append(s.replies, responds("completed", utters("Done.")))
		client := atResponses(t, s, map[string]any{"max_completion_tokens": 900, "reasoning_effort": "low", "verbosity": "low", "tool_choice": map[string]any{"type": "function", "function": map[string]any{"name": "read_file"}}})
		req := llm.Request{
			Messages: []llm.Message{{Role: llm.System, Content: "Be exact."}, {Role: llm.User, Content: "Which?", Images: []llm.Image{{MediaType: "image/png", Data: []byte("png")}}}},
			Tools:    []llm.Tool{llm.NewTool("read_file", "Read a file.", map[string]llm.Property{"path": {Type: "string"}}, "path")},
		}
		var usage llm.Usage
		for range 4 {
			reply, err := client.Generate(t.Context(), req)
			require.NoError(t, err)
			usage = usage.Add(reply.Usage)
			req.Messages = append(req.Messages, reply.Message)
			for _, call := range reply.Message.ToolCalls {
				req.Messages = append(req.Messages, call.Result(""), llm.Message{Role: llm.User, Content: "Be brief."})
			}
		}
		require.Equal(t, "Done.", req.Messages[len(req.Messages)-1].Content)
		require.Equal(t, llm.Usage{InputTokens: 400, CachedInputTokens: 240, OutputTokens: 36, ReasoningTokens: 20, ModelCalls: 4}, usage)
		require.Equal(t, !plain, strings.Contains(s.asked[0], `"include":["reasoning.encrypted_content"]`))
		for _, part := range []string{
			`"instructions":"Be exact."`, `"max_output_tokens":900`, `"reasoning":{"effort":"low"}`, `"verbosity":"low"`, `"tool_choice":{"name":"read_file","type":"function"}`,
			`"image_url":"data:image/png;base64,cG5n"`, `"encrypted_content":"sealed 1"`, `"output":""`, `"store":false`,
		} {
			require.Contains(t, s.asked[3], part)
		}
	}
}

// A stream that is cut at any event is a failure of the network, never an answer.
func TestResponses_cutStream(t *testing.T) {
	t.Parallel()
	whole := responds("completed", reasons(1), utters("Look."), invokes(1))
	for n := range len(whole) - 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reply, err := atResponses(t, &responsesServer{replies: [][]string{whole[:n]}}, nil).Generate(t.Context(), hello)
				failed := &llm.Error{}
				require.ErrorAs(t, err, &failed)
				require.Equal(t, llm.Network, failed.Kind)
				require.Equal(t, n > 0, reply.Usage.ModelCalls > 0)
			})
		})
	}
}

func TestResponses_ends(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply []string
		kind  llm.Kind
		says  string
	}{
		"the token limit":        {responds("incomplete", utters("Lo")), llm.BadReply, "raise max_output_tokens"},
		"a refusal":              {responds("completed", `{"type":"message","content":[{"type":"refusal","refusal":"I will not."}]}`), llm.ContentPolicy, "I will not."},
		"a failure":              {[]string{`{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"no"}}}`}, llm.BadReply, "no"},
		"an error in the stream": {[]string{`{"type":"error","code":"invalid_request_error","message":"no such"}`}, llm.BadRequest, "no such"},
		"no JSON":                {[]string{`{"type":`}, llm.BadReply, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := atResponses(t, &responsesServer{replies: [][]string{tc.reply}}, nil).Generate(t.Context(), hello)
			failed := &llm.Error{}
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.kind, failed.Kind)
			require.ErrorContains(t, err, tc.says)
		})
	}
	_, err := openai.New(openai.Options{Wire: openai.ResponsesWire, BaseURL: "https://a.test/v1", Model: "m", Params: map[string]any{"stop": "x"}})
	require.ErrorContains(t, err, "stop in params of model m has no counterpart in the form of responses; remove it, or set wire: chat")
}

// A structured reply is asked for by its schema. Thoughts of one form are not sent in another.
func TestResponses_form(t *testing.T) {
	t.Parallel()
	s := &responsesServer{replies: [][]string{responds("completed", utters(`{\"score\":3}`))}}
	client := atResponses(t, s, nil)
	reply, err := client.Generate(t.Context(), llm.Request{
		Messages: hello.Messages, Form: &llm.Form{Name: "rate", Description: "A score.", Schema: json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}}}`)},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"score":3}`, reply.Message.Content)
	require.Contains(t, s.asked[0], `"format":{"name":"rate","strict":false,"description":"A score.","type":"json_schema","schema":{"type":"object","properties":{"score":{"type":"integer"}}}}`)

	chat, w := serve(t, openai.Options{}, rawFields(200, saysHi))
	_, err = chat.Generate(t.Context(), llm.Request{Messages: append(slices.Clone(hello.Messages), llm.Message{
		Role: llm.Assistant, Content: "Hm.", Extra: map[string]json.RawMessage{"reasoning_items": json.RawMessage(`[{"type":"reasoning"}]`)},
	}, llm.Message{Role: llm.User, Content: "And?"})})
	require.NoError(t, err)
	require.NotContains(t, w.seen()[0].body, "reasoning_items")
}
