package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// Form is one preparation.
type Form[T any] struct {
	Request  llm.Request
	Parse    func(json.RawMessage) (T, error) // reads the JSON object of the reply
	Fallback T
}

// Made is the outcome of a preparation.
type Made[T any] struct {
	Value T         `json:"value"`
	Why   string    `json:"fallback,omitempty"` // the reason for which Value is the fallback; empty for a valid reply
	Usage llm.Usage `json:"usage"`
}

// maxWhy limits the reason for a fallback, in bytes.
const maxWhy = 280

// Make makes one request to the model. It returns the cause of ctx as its error if ctx has
// ended; any other fault leads to the fallback.
func Make[T any](ctx context.Context, model loop.Model, f Form[T]) (Made[T], error) {
	reply, err := model.Generate(ctx, f.Request)
	made := Made[T]{Usage: reply.Usage}
	if ctx.Err() != nil {
		return made, context.Cause(ctx)
	}
	if err == nil {
		made.Value, err = f.read(reply.Message)
	}
	if err != nil {
		made.Value, made.Why = f.Fallback, text.Truncate(text.OneLine(err.Error()), maxWhy)
	}
	return made, nil
}

// Fall returns the fallback of f with the reason why the preparation cannot be made.
func (f Form[T]) Fall(why error) Made[T] {
	return Made[T]{Value: f.Fallback, Why: text.Truncate(text.OneLine(why.Error()), maxWhy)}
}

func (f Form[T]) read(reply llm.Message) (T, error) {
	object, err := objectIn(reply, f.Request.Form.Name)
	if err != nil {
		var zero T
		return zero, err
	}
	return f.Parse(object)
}

// objectIn returns the JSON object of a structured reply. The object is the arguments of a
// call of the named tool, or else is in the text, possibly in a code fence or between
// sentences.
func objectIn(reply llm.Message, name string) (json.RawMessage, error) {
	found := text.WithoutThoughts(reply.Content)
	for _, call := range reply.ToolCalls {
		if call.Name == name {
			found = call.Arguments
			break
		}
	}
	begin, end := strings.IndexByte(found, '{'), strings.LastIndexByte(found, '}')
	if begin < 0 || end < begin {
		return nil, errors.New("the reply has no JSON object")
	}
	object := json.RawMessage(found[begin : end+1])
	if !json.Valid(object) {
		return nil, errors.New("the JSON object of the reply is malformed")
	}
	return object, nil
}

// schema is a JSON Schema, limited to the kinds that the forms need.
type schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Properties  map[string]schema `json:"properties,omitempty"`
	Required    []string          `json:"required,omitempty"`
	Items       *schema           `json:"items,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	MinItems    int               `json:"minItems,omitempty"`
	MaxItems    int               `json:"maxItems,omitempty"`

	AdditionalProperties *bool `json:"additionalProperties,omitempty"`
}

// object returns the schema of an object with exactly these properties, in the order of
// names.
func object(properties map[string]schema, names ...string) schema {
	closed := false
	return schema{Type: "object", Properties: properties, Required: names, AdditionalProperties: &closed}
}

func list(of schema) schema { return schema{Type: "array", Items: &of} }

func str(description string) schema { return schema{Type: "string", Description: description} }

// request returns a request for the form, with a system and a user message.
func request(name, description string, s schema, system, user string) llm.Request {
	data, _ := json.Marshal(s) // strings and numbers always have a JSON form
	return llm.Request{
		Messages: []llm.Message{
			{Role: llm.System, Content: system + "\n\nReply with one JSON object of this schema and nothing else:\n\n" + string(data)},
			{Role: llm.User, Content: user},
		},
		Form: &llm.Form{Name: name, Description: description, Schema: data},
	}
}

// perAgent parses an object with one property for each of n agents.
func perAgent[T any](object json.RawMessage, n int, parse func(json.RawMessage) (T, error)) ([]T, error) {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(object, &properties); err != nil {
		return nil, fmt.Errorf("the reply is no object: %w", err)
	}
	all := make([]T, n)
	for i := range n {
		name := agentName(i + 1)
		raw, ok := properties[name]
		if !ok {
			return nil, fmt.Errorf("the reply has nothing for %s", name)
		}
		var err error
		if all[i], err = parse(raw); err != nil {
			return nil, fmt.Errorf("of %s: %w", name, err)
		}
	}
	return all, nil
}

func agentName(number int) string { return fmt.Sprintf("agent%d", number) }

// agentNames returns agent1 to agent<n>.
func agentNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = agentName(i + 1)
	}
	return names
}
