package llm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"conclave/engine/text"
)

// ArgumentError tells the model why the arguments of a call do not fit its tool.
type ArgumentError string

func (e ArgumentError) Error() string { return string(e) }

func refuseArguments(format string, args ...any) error {
	return ArgumentError(fmt.Sprintf(format, args...))
}

// Schema validates the arguments of one tool.
type Schema struct {
	tool     string
	resolved *jsonschema.Resolved
}

// CompileSchema reads the schema of a tool's parameters.
func CompileSchema(t Tool) (*Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(t.Parameters, &s); err != nil {
		return nil, fmt.Errorf("read the schema of tool %s: %w", t.Name, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("resolve the schema of tool %s: %w", t.Name, err)
	}
	return &Schema{tool: t.Name, resolved: resolved}, nil
}

// Decode validates the JSON arguments of a call and reads them into a struct. An optional
// argument that is null counts as absent.
func (s *Schema) Decode(text string, into any) error {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return refuseArguments("the arguments of %s are not a JSON object (%v); send %s", s.tool, err, s.argumentUsage())
	}
	spec := s.resolved.Schema()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, known := spec.Properties[name]; !known {
			return refuseArguments("%s has no argument %q%s; it takes %s", s.tool, name, SuggestName(name, s.argumentNames()), s.argumentUsage())
		}
		if object[name] == nil && !slices.Contains(spec.Required, name) {
			delete(object, name)
		}
	}
	for _, name := range spec.Required {
		if _, ok := object[name]; !ok {
			return refuseArguments("%s needs the argument %q; it takes %s", s.tool, name, s.argumentUsage())
		}
	}
	if err := s.resolved.Validate(object); err != nil {
		return refuseArguments("wrong arguments for %s: %s", s.tool, strings.TrimPrefix(err.Error(), "validating root: "))
	}
	valid, _ := json.Marshal(object) // it was read from JSON
	return json.Unmarshal(valid, into)
}

func (s *Schema) argumentNames() []string {
	return slices.Sorted(maps.Keys(s.resolved.Schema().Properties))
}

func (s *Schema) argumentUsage() string {
	spec := s.resolved.Schema()
	var parts []string
	for _, name := range s.argumentNames() {
		mark := "?"
		if slices.Contains(spec.Required, name) {
			mark = ""
		}
		parts = append(parts, fmt.Sprintf("%q%s: %s", name, mark, spec.Properties[name].Type))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// SuggestName returns a suffix for messages that suggests the choice nearest to wrong, or "" if none is near.
func SuggestName(wrong string, choices []string) string {
	choice, ok := text.Nearest(wrong, choices)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", choice)
}

// RunCommand is the name of the shell tool.
const RunCommand = "run_command"

//go:embed files.json
var files []byte

//go:embed run_command.json
var shell []byte

// decoded decodes the file tools once.
var decoded = sync.OnceValue(func() (tools []Tool) {
	_ = json.Unmarshal(files, &tools) // a test verifies that they can be decoded
	return tools
})

// FileTools returns the file tools. Their parameters are shared and must not be changed.
func FileTools() []Tool { return slices.Clone(decoded()) }

// ShellTool returns the shell tool without a description, which depends on the sandbox.
func ShellTool() Tool {
	var tool Tool
	_ = json.Unmarshal(shell, &tool) // a test verifies that it can be decoded
	return tool
}

// BuiltinNames returns the names of the selected tools: the file tools, the shell tool, or both.
func BuiltinNames(files, shell bool) []string {
	var names []string
	if files {
		names = append(names, text.Each(FileTools(), func(t Tool) string { return t.Name })...)
	}
	if shell {
		names = append(names, RunCommand)
	}
	return names
}

// CheckArguments returns an *ArgumentError for arguments that a tool would refuse. Tools that are
// not built in are not checked.
func CheckArguments(tool string, args map[string]any) error {
	tools := append(FileTools(), ShellTool())
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == tool })
	if i < 0 {
		return nil
	}
	s, err := CompileSchema(tools[i])
	if err != nil {
		return err
	}
	data, _ := json.Marshal(args) // values of JSON always have a JSON form
	if args == nil {
		data = nil
	}
	var checked map[string]any
	return s.Decode(string(data), &checked)
}
