package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// MaxTeamDepth limits the chain of teams in which each answers an agent of the one before.
const MaxTeamDepth = 3

// maxClientTools bounds the tools of a caller.
const maxClientTools = 128

// The values of Caller.ClientToolsFor: the agents that are offered the caller's tools.
const (
	ForAll       = "all"
	ForPresenter = "presenter"
)

// Caller is the part of a session's input that a program adds to the query.
type Caller struct {
	Instructions string `json:"instructions,omitempty"` // instructions for every answer
	Depth        int    `json:"depth,omitempty"`        // 1 for a team that answers an agent of another team; 0 for a person's

	// AnswerSchema is the JSON Schema that the answers of this session fit.
	AnswerSchema json.RawMessage `json:"answer_schema,omitempty"`

	// ClientTools are the tools that the caller runs, as in requests of OpenAI's API.
	// ClientToolsFor selects the agents that are offered them; empty selects all.
	ClientTools    json.RawMessage `json:"client_tools,omitempty"`
	ClientToolsFor string          `json:"client_tools_for,omitempty"`
}

// IsZero reports whether the caller adds nothing.
func (c Caller) IsZero() bool {
	return c.Instructions == "" && c.Depth == 0 && len(c.AnswerSchema) == 0 && len(c.ClientTools) == 0 && c.ClientToolsFor == ""
}

// MaxConversation bounds, in bytes, the texts of a Conversation.
const MaxConversation = 4 << 20

// Conversation is conversations/<hash>.json in a session: the texts of a long question, of which the
// workflow has only the hash.
type Conversation struct {
	Query        string          `json:"query"`
	History      []Turn          `json:"history,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	ClientTools  json.RawMessage `json:"client_tools,omitempty"`
}

// Size returns the size of the texts in bytes.
func (c Conversation) Size() int {
	size := len(c.Query) + len(c.Instructions) + len(c.ClientTools)
	for _, t := range c.History {
		size += len(t.Query) + len(t.Answer)
	}
	return size
}

// Conversation returns the key of a Conversation with a hash.
func (l Layout) Conversation(hash string) string { return l.File("conversations/" + hash + ".json") }

// ClientTool is a tool that the caller runs.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// clientToolName matches a tool's name. Names are limited to 64 characters, of which the
// prefix client__ needs eight.
var clientToolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,56}$`)

// Check refuses instructions or tools longer than limit bytes, malformed tools, and a depth
// above MaxTeamDepth.
func (c Caller) Check(limit int) error {
	switch {
	case len(c.Instructions) > limit:
		return fmt.Errorf("the instructions have %d bytes, at most %d are accepted", len(c.Instructions), limit)
	case !utf8.ValidString(c.Instructions):
		return errors.New("the instructions are not UTF-8 text")
	case c.Depth < 0 || c.Depth > MaxTeamDepth:
		return fmt.Errorf("the depth is %d: teams may ask teams at most %d deep; does a team ask itself?", c.Depth, MaxTeamDepth)
	}
	if err := CheckClientTools("client_tools", c.ClientTools, limit); err != nil {
		return err
	}
	return CheckClientToolsFor(c.ClientToolsFor)
}

// CheckClientTools refuses malformed tools and more than limit bytes of them. Errors name the
// list as given.
func CheckClientTools(name string, list json.RawMessage, limit int) error {
	if len(list) > limit {
		return fmt.Errorf("the %s have %d bytes, at most %d are accepted", name, len(list), limit)
	}
	_, err := clientTools(name, list)
	return err
}

// CheckClientToolsFor refuses unknown values of Caller.ClientToolsFor.
func CheckClientToolsFor(agents string) error {
	switch agents {
	case "", ForAll, ForPresenter:
		return nil
	}
	return fmt.Errorf("client_tools_for is %q: give %s or %s", agents, ForAll, ForPresenter)
}

// Tools returns the caller's tools.
func (c Caller) Tools() ([]ClientTool, error) { return clientTools("client_tools", c.ClientTools) }

// clientTools decodes a list of tools. Workflows may call it: the same text is always decoded
// to the same tools.
//
//workflowcheck:ignore
func clientTools(name string, list json.RawMessage) ([]ClientTool, error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, nil
	}
	var given []struct {
		Type     string     `json:"type"`
		Function ClientTool `json:"function"`
	}
	if err := json.Unmarshal(list, &given); err != nil {
		return nil, errors.New(name + ` is not a list of tools: give [{"type":"function","function":{"name":…,"description":…,"parameters":…}}]`)
	}
	if len(given) > maxClientTools {
		return nil, fmt.Errorf("there are %d %s, at most %d are accepted", len(given), name, maxClientTools)
	}
	tools := make([]ClientTool, 0, len(given))
	names := map[string]bool{}
	for i, g := range given {
		var object map[string]any
		switch {
		case g.Type != "function":
			return nil, fmt.Errorf("%s[%d] has the type %q: only functions are supported", name, i, g.Type)
		case !clientToolName.MatchString(g.Function.Name):
			return nil, fmt.Errorf("%s[%d] has the name %q: give 1 to 56 letters, digits, dashes and underscores", name, i, g.Function.Name)
		case names[g.Function.Name]:
			return nil, fmt.Errorf("%s[%d] has the name %q of an earlier one", name, i, g.Function.Name)
		case len(g.Function.Parameters) == 0 || string(g.Function.Parameters) == "null":
			g.Function.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		case json.Unmarshal(g.Function.Parameters, &object) != nil:
			return nil, fmt.Errorf("%s[%d].function.parameters is not a JSON Schema of an object", name, i)
		}
		names[g.Function.Name] = true
		tools = append(tools, g.Function)
	}
	return tools, nil
}

// SessionHash returns the hash of a session's ID, which the IDs of its calls contain.
func SessionHash(session string) string {
	const digits = 16
	return SumOf([]byte(session))[:digits]
}

// CallPointer returns the key of the document that names the session with the given
// SessionHash. It is stored beside the sessions.
func CallPointer(hash string) string { return "calls/" + hash + ".json" }

// CalledSession is calls/<hash>.json.
type CalledSession struct {
	SessionID string `json:"session_id"`
}

// CallArguments is calls/<id>.json in a session: long arguments of a call.
type CallArguments struct {
	Arguments string `json:"arguments"`
}

// CallResult is calls/<id>.result.json in a session.
type CallResult struct {
	Content string `json:"content"`
}

// Question is questions/<id>.json in a session: the question of a step to a person.
type Question struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"`
	Agent     string   `json:"agent"`
	Text      string   `json:"text"`
	Why       string   `json:"why,omitempty"`
	Options   []string `json:"options,omitempty"`
	Tool      string   `json:"tool,omitempty"` // of a call that is asked about, with its arguments
	Arguments string   `json:"arguments,omitempty"`
	Effect    string   `json:"effect,omitempty"` // the hash in effects/<hash>.json that the call would have
}

// Question returns the key of a question.
func (l Layout) Question(id string) string { return l.File("questions/" + id + ".json") }

// QuestionAnswer returns the key of the answer to a question.
func (l Layout) QuestionAnswer(id string) string { return l.File("questions/" + id + ".answer.json") }

// CallArguments returns the key of the long arguments of a call.
func (l Layout) CallArguments(id string) string { return l.File("calls/" + id + ".json") }

// CallResult returns the key of the result of a call.
func (l Layout) CallResult(id string) string { return l.File("calls/" + id + ".result.json") }
