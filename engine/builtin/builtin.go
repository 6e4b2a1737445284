package builtin

import (
	_ "embed"
	"encoding/json"
	"slices"
	"sync"

	"conclave/engine/llm"
)

// RunCommand is the name of the shell tool.
const RunCommand = "run_command"

//go:embed files.json
var files []byte

//go:embed run_command.json
var shell []byte

// decoded decodes the file tools once.
var decoded = sync.OnceValue(func() (tools []llm.Tool) {
	_ = json.Unmarshal(files, &tools) // a test verifies that they can be decoded
	return tools
})

// Files returns the file tools. Their parameters are shared and must not be changed.
func Files() []llm.Tool { return slices.Clone(decoded()) }

// Shell returns the shell tool without a description, which depends on the sandbox.
func Shell() llm.Tool {
	var tool llm.Tool
	_ = json.Unmarshal(shell, &tool) // a test verifies that it can be decoded
	return tool
}

// Names returns the names of the selected tools: the file tools, the shell tool, or both.
func Names(files, shell bool) []string {
	var names []string
	if files {
		for _, t := range Files() {
			names = append(names, t.Name)
		}
	}
	if shell {
		names = append(names, RunCommand)
	}
	return names
}

// Check returns an *ArgumentError for arguments that a tool would refuse. Tools that are
// not built in are not checked.
func Check(tool string, args map[string]any) error {
	tools := append(Files(), Shell())
	i := slices.IndexFunc(tools, func(t llm.Tool) bool { return t.Name == tool })
	if i < 0 {
		return nil
	}
	s, err := Compile(tools[i])
	if err != nil {
		return err
	}
	data, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if args == nil {
		data = nil
	}
	var checked map[string]any
	return s.Decode(string(data), &checked)
}
