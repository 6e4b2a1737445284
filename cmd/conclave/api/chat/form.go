package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// form is the form of an answer. The zero form is text.
type form struct {
	asData bool   // the answer is data of a schema
	call   string // the answer is a call of this function, or of the one that the data name if it is anyCall
}

const (
	anyCall = "*"
	callKey = "x-conclave-call" // keyword of a session's schema with the form's call
)

// endedCall matches the ID of a call that was the answer of a session, which has ended.
var endedCall = regexp.MustCompile(`^call_[0-9a-f]{16}$`)

// formOf returns the form of a session's answer by its schema, which may be empty.
func formOf(schema json.RawMessage) form {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(schema, &keys) // the session has read it
	return form{asData: keys != nil, call: llm.Text(keys[callKey])}
}

// apply gives a reply the data of its session in this form.
func (f form) apply(r reply, session string, data json.RawMessage) reply {
	r.answer = string(data)
	if f.call == "" {
		return r
	}
	chosen := struct {
		Name      string
		Arguments json.RawMessage
	}{f.call, data}
	if f.call == anyCall {
		_ = json.Unmarshal(data, &chosen) // they fit the schema of requireCall
	}
	r.answer, r.ending = "", endedWithCalls
	r.calls = []coordination.Call{{ID: "call_" + artifact.SessionHash(session), Name: chosen.Name, Arguments: string(chosen.Arguments)}}
	return r
}

// readFormat reads the form that a request wants for text, in any of the protocols.
func (out *request) readFormat(param string, raw json.RawMessage) error {
	type described struct {
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
	}
	var in struct {
		Type   string     `json:"type"`
		Nested *described `json:"json_schema"` // in Chat Completions
		described
	}
	if activities.Given(raw) && json.Unmarshal(raw, &in) != nil {
		return invalidParam(param, `the value of %s is not understood; give {"type": "json_schema", …} with a schema`, param)
	}
	if in.Nested != nil {
		in.described = *in.Nested
	}
	switch {
	case in.Type == "", in.Type == "text":
		return nil
	case in.Type == "json_object":
		in.Schema = json.RawMessage(`{"type":"object"}`)
	case in.Type != "json_schema", !activities.Given(in.Schema):
		return invalidParam(param, "%s has the type %.40q; give text, json_object, or json_schema with a schema", param, in.Type)
	}
	return out.answerAs(param, in.Schema, "", in.Description)
}

// answerAs makes the answer data of a schema, which are a call unless call is empty.
func (out *request) answerAs(param string, schema json.RawMessage, call, told string) error {
	read, err := llm.ReadDataSchema(schema)
	if err != nil {
		return invalidParam(param, "the schema in %s: %v", param, err)
	}
	for _, part := range read.Unchecked {
		out.ignored = append(out.ignored, param+" "+strconv.QuoteToASCII(part))
	}
	out.form, out.schema, out.told = form{asData: true, call: call}, schema, told
	if call != "" {
		var keys map[string]any
		_ = json.Unmarshal(schema, &keys) // an object
		keys[callKey] = call
		out.schema, err = json.Marshal(keys)
	}
	return err
}

// toolChoice says which tools a reply may or must call, in any of the protocols.
type toolChoice struct {
	Type     string       `json:"type"`
	Name     string       `json:"name"`
	Mode     string       `json:"mode"`
	Tools    []toolChoice `json:"tools"`
	Function *toolChoice  `json:"function"`
	Custom   *toolChoice  `json:"custom"`
	Allowed  *toolChoice  `json:"allowed_tools"`
}

// names returns the tools that the choice names, or nil.
func (c toolChoice) names() (names []string) {
	c = *cmp.Or(c.Function, c.Custom, &c)
	if c.Name != "" {
		names = append(names, c.Name)
	}
	for _, t := range c.Tools {
		names = append(names, t.names()...)
	}
	return names
}

// chooseTools reads a tool_choice. The answer is a call if it requires one.
func (out *request) chooseTools(raw json.RawMessage) error {
	var c toolChoice
	if activities.Given(raw) && json.Unmarshal(raw, &c.Type) != nil && json.Unmarshal(raw, &c) != nil {
		return invalidParam("tool_choice", "the value of tool_choice is neither a text nor an object")
	}
	c = *cmp.Or(c.Allowed, &c)
	names, mode := c.names(), cmp.Or(c.Mode, c.Type, "auto")
	out.mayCall = mode != "none"
	if mode == "none" || mode == "auto" && names == nil {
		return nil
	}
	tools, err := artifact.Caller{ClientTools: out.tools}.Tools()
	if err != nil {
		return invalidParam("tools", "%v", err)
	}
	offered := slices.DeleteFunc(slices.Clone(tools), func(t artifact.ClientTool) bool { return names != nil && !slices.Contains(names, t.Name) })
	switch {
	case len(offered) < len(names), len(offered) == 0:
		return invalidParam("tool_choice", "tool_choice needs tools that the request does not have: %.80q", names)
	case mode == "auto":
		return out.offerTools(offered)
	case mode == "required", mode == "any", len(names) == 1 && slices.Contains([]string{"function", "custom", "tool"}, mode):
		return out.requireCall(offered)
	}
	return unsupportedParam("tool_choice", "give auto, none, required, or a function of tools")
}

// requireCall makes the answer one call of a tool.
func (out *request) requireCall(tools []artifact.ClientTool) error {
	told := "Your answer is the call of a function, which the program that asks will run."
	if len(tools) == 1 {
		return out.answerAs("tools", tools[0].Parameters, tools[0].Name, fmt.Sprintf("%s The data are the arguments of %s. %s", told, tools[0].Name, tools[0].Description))
	}
	told += " The data name one and its arguments:"
	var each []string
	for i, t := range tools {
		s, err := llm.ReadDataSchema(t.Parameters)
		if err != nil {
			return invalidParam("tools", "the parameters of %s: %v", t.Name, err)
		}
		each = append(each, fmt.Sprintf(`{"type":"object","properties":{"name":{"enum":[%q]},"arguments":%s},"required":["name","arguments"],"additionalProperties":false}`,
			t.Name, s.Sent(fmt.Sprintf("/anyOf/%d/properties/arguments", i))))
		told += "\n- " + t.Name + ": " + t.Description
	}
	return out.answerAs("tools", json.RawMessage(`{"anyOf":[`+strings.Join(each, ",")+`]}`), anyCall, told)
}

// readTools translates tools into those of Chat Completions. A custom tool becomes a function whose
// one argument is the text. Tools that a service itself runs are ignored.
func (out *request) readTools(given []json.RawMessage) error {
	var tools []artifact.ClientTool
	for i, raw := range given {
		var t givenTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return invalidParam("tools", "tool %d is no object", i+1)
		}
		switch {
		case t.Type == "function", t.InputSchema != nil:
			tools = append(tools, artifact.ClientTool{Name: t.Name, Description: t.Description, Parameters: slices.Concat(t.Parameters, t.InputSchema)})
		case t.Type == "custom":
			out.custom = append(out.custom, t.Name)
			tools = append(tools, artifact.ClientTool{Name: t.Name, Description: t.describeInput(), Parameters: json.RawMessage(customParameters)})
		default:
			out.ignored = append(out.ignored, "tools."+cmp.Or(t.Type, "unknown"))
		}
	}
	return out.offerTools(tools)
}

// givenTool is a tool of Responses or Messages.
type givenTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`   // of Responses
	InputSchema json.RawMessage `json:"input_schema"` // of Messages
	Format      struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	} `json:"format"`
}

// customParameters is the schema of the arguments of a custom tool.
const customParameters = `{"type":"object","properties":{"input":{"type":"string","description":"the whole input of the tool, as plain text"}},"required":["input"],"additionalProperties":false}`

func (t givenTool) describeInput() string {
	if t.Format.Definition == "" {
		return t.Description
	}
	return fmt.Sprintf("%s\n\nThe input follows this grammar (%s):\n%s", t.Description, t.Format.Syntax, t.Format.Definition)
}

// offerTools gives the request its tools, in the form of Chat Completions.
func (out *request) offerTools(tools []artifact.ClientTool) (err error) {
	type function struct {
		Type     string              `json:"type"`
		Function artifact.ClientTool `json:"function"`
	}
	var given []function
	for _, t := range tools {
		given = append(given, function{"function", t})
	}
	if given != nil {
		out.tools, err = json.Marshal(given)
	}
	return err
}
