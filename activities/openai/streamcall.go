package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"conclave/engine/llm"
)

// streamCall is a tool call in a stream, or a fragment of one.
type streamCall struct {
	Index        *int            `json:"index,omitempty"`
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     streamFunction  `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// streamFunction is the function of a streamCall. Arguments is a string or, from some servers, the
// object itself.
type streamFunction struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

func (s *stream) addCall(f streamCall) {
	open := s.continuedCall(f)
	if open == nil {
		open = &streamCall{Index: f.Index}
		s.calls = append(s.calls, open)
	}
	open.extendBy(f)
}

// continuedCall returns the call that a fragment continues, or nil if it starts a new one. A fragment
// without a name continues the call with its ID; any other may continue the latest call with its
// index, or with no index.
func (s *stream) continuedCall(f streamCall) *streamCall {
	var latest *streamCall
	for _, open := range slices.Backward(s.calls) {
		if f.Index != nil && open.Index != nil && *f.Index != *open.Index {
			continue
		}
		if latest == nil {
			latest = open
		}
		if f.Function.Name == "" && f.ID != "" && f.ID == open.ID {
			return open
		}
	}
	if latest == nil || !latest.continuedBy(f) {
		return nil
	}
	return latest
}

// continuedBy reports whether a fragment with a matching index continues the call. It starts a new
// call if it has another name, a name and another ID, or a name after complete arguments.
func (c *streamCall) continuedBy(f streamCall) bool {
	other := f.ID != "" && c.ID != "" && f.ID != c.ID
	switch named := f.Function.Name != ""; {
	case !named:
		return !other || isEmpty(f.Function.Arguments) || !c.isComplete()
	case other, c.Function.Name != "" && f.Function.Name != c.Function.Name:
		return false
	}
	again := f.ID == "" && c.Function.Name != ""
	return !again || !c.isComplete()
}

func (c *streamCall) isComplete() bool {
	if !bytes.HasSuffix(bytes.TrimRight(c.Function.Arguments, "\" \t\r\n\\trn"), []byte("}")) {
		return false // avoids parsing a long text again for every fragment
	}
	written := c.argumentText()
	return strings.HasPrefix(strings.TrimSpace(written), "{") && json.Valid([]byte(written))
}

func (c *streamCall) argumentText() string {
	var text string
	if json.Unmarshal(c.Function.Arguments, &text) != nil {
		return string(c.Function.Arguments)
	}
	return text
}

func (c *streamCall) extendBy(f streamCall) {
	if c.ID == "" {
		c.ID = f.ID
	}
	if f.Type != "" {
		c.Type = f.Type
	}
	if f.Function.Name != "" {
		c.Function.Name = f.Function.Name
	}
	if !f.isComplete() || !c.isComplete() || llm.Compact(f.argumentText()) != llm.Compact(c.argumentText()) { // some gateways repeat a whole call
		c.Function.Arguments = joinFragments(c.Function.Arguments, f.Function.Arguments)
	}
	c.ExtraContent = joinFragments(c.ExtraContent, f.ExtraContent)
}

// saidInterval is the time between two reports of an unfinished reply.
const saidInterval = time.Second

// teller reports the text of an unfinished reply. The zero teller reports nothing.
type teller struct {
	tell func(text string)
	next time.Time
}

func (t *teller) reportText(s *stream, now time.Time) {
	if t.tell == nil || now.Before(t.next) || !s.hasContent {
		return
	}
	t.next = now.Add(saidInterval)
	t.tell(s.saidText())
}

// lineEnds unescapes line ends, tabs, quotes and backslashes in arguments, which are JSON.
var lineEnds = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\t`, "\t", `\\`, `\`)

// saidText returns the text of the reply so far: its content, or its thoughts if there is no content
// yet, and the names and arguments of its tool calls.
func (s *stream) saidText() string {
	said := s.textField("content")
	if said == "" && len(s.calls) == 0 {
		said = s.textField("reasoning_content") + s.textField("reasoning")
	}
	for _, c := range s.calls {
		said = strings.TrimSpace(said + "\n\n" + c.Function.Name + " " + lineEnds.Replace(c.argumentText()))
	}
	return said
}

func (s *stream) textField(name string) string {
	var text string
	_ = json.Unmarshal(s.choice.Message[name], &text)
	return text
}

// Listed is a model in a server's list. Each server states the context window under one of these
// keys.
type Listed struct {
	ID               string `json:"id"`
	MaxModelLen      int    `json:"max_model_len"`      // key of vLLM and SGLang
	ContextLength    int    `json:"context_length"`     // key of OpenRouter and Together
	ContextWindow    int    `json:"context_window"`     // key of Groq
	MaxContextLength int    `json:"max_context_length"` // key of Mistral and LM Studio
	Meta             struct {
		Context int `json:"n_ctx"` // key of llama.cpp
	} `json:"meta"`
}

// Window returns the context window in tokens, or 0 if the server does not state it.
func (l Listed) Window() int {
	return max(l.MaxModelLen, l.ContextLength, l.ContextWindow, l.MaxContextLength, l.Meta.Context)
}

// List returns the models that the server lists, in its order.
func (c *Client) List(ctx context.Context) ([]Listed, error) {
	var body []byte
	options := []option.RequestOption{option.WithResponseBodyInto(&body)}
	if c.options.NativeList {
		options = append(options, option.WithHeaderDel("Authorization"), option.WithHeader("X-Api-Key", c.options.APIKey),
			option.WithHeader("Anthropic-Version", "2023-06-01"), option.WithQuery("limit", "1000"))
	}
	if _, err := c.models.List(ctx, options...); err != nil {
		failed := c.unreachedError(err, false)
		if refused, ok := errors.AsType[*sdk.Error](err); ok {
			said, _ := io.ReadAll(refused.Response.Body) // the SDK has read and restored it
			failed = c.refusedError(refused.StatusCode, refused.Response.Header, said)
		}
		return nil, fmt.Errorf("list the models of %s: %s", c.host, failed.Detail)
	}
	var page struct{ Data []Listed }
	if !json.Valid(body) {
		return nil, fmt.Errorf("list the models of %s: its reply is no list of models; check that it serves the Chat Completions API", c.host)
	}
	_ = json.Unmarshal(body, &page) // a field of another type is left out
	if page.Data == nil {
		_ = json.Unmarshal(body, &page.Data) // Together's list is a bare array
	}
	return page.Data, nil
}

// Window returns the context window of the model in tokens according to the server's list of
// models, or 0 if the list does not exist or does not state it.
func (c *Client) Window(ctx context.Context) int {
	listed, err := c.List(ctx)
	if i := slices.IndexFunc(listed, func(l Listed) bool { return l.ID == c.options.Model }); err == nil && i >= 0 {
		return listed[i].Window()
	}
	return 0
}
