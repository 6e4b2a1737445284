package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

//go:embed tools.json
var descriptions []byte

// Limits of one call.
const (
	maxLines   = 2000      // lines of a file shown at once
	maxOutput  = 48 << 10  // bytes of a result
	maxLine    = 4 << 10   // bytes shown of one line
	maxFile    = 8 << 20   // bytes of a file that is written or edited
	maxEntries = 1000      // entries listed
	maxMatches = 200       // lines found
	maxVisited = 100_000   // files and directories looked at by one call
	maxCopied  = 10_000    // files copied by one call
	maxBytes   = 256 << 20 // bytes read by a search or copied by one call
)

// Limits of one step.
const maxImages = 20 // images shown

// refusal is what a tool tells the model instead of doing what it was asked.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Files are the file tools of one workspace. Calls come one after another.
type Files struct {
	root    *os.Root
	tools   []llm.Tool
	schemas map[string]*schema
	images  int // how many were shown
}

// Open confines file tools to the directory dir. The caller closes them.
func Open(dir string) (*Files, error) {
	described, err := described()
	if err != nil {
		return nil, err
	}
	f := &Files{tools: described, schemas: make(map[string]*schema)}
	for _, t := range f.tools {
		s, err := compile(t)
		if err != nil {
			return nil, err
		}
		f.schemas[t.Name] = s
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	f.root = root
	return f, nil
}

// described are the file tools as models are told of them.
func described() ([]llm.Tool, error) {
	var list []llm.Tool
	if err := json.Unmarshal(descriptions, &list); err != nil {
		return nil, fmt.Errorf("reading the descriptions of the file tools: %w", err)
	}
	return list, nil
}

// Close releases the workspace. Calls after it fail.
func (f *Files) Close() error { return f.root.Close() }

// Tools describes the file tools.
func (f *Files) Tools() []llm.Tool { return slices.Clone(f.tools) }

// Run carries out a call and returns what the model is told, objections
// included. An error is a fault of the machinery or the end of ctx.
func (f *Files) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	out, err := f.run(ctx, call)
	return told(ctx, call, out, err)
}

// told makes of what came of a call what the loop is given: an objection is the
// result, anything else that went wrong an error.
func told(ctx context.Context, call llm.ToolCall, out loop.Output, err error) (loop.Output, error) {
	var refused refusal
	switch {
	case err != nil && ctx.Err() != nil:
		return loop.Output{}, fmt.Errorf("%s: %w", call.Name, context.Cause(ctx))
	case errors.As(err, &refused):
		return loop.Output{Text: "error: " + string(refused)}, nil
	case err != nil:
		return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
	}
	return out, nil
}

func (f *Files) run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	s, ok := f.schemas[call.Name]
	if !ok {
		return loop.Output{}, unknown(call.Name, f.tools)
	}
	if ctx.Err() != nil {
		return loop.Output{}, context.Cause(ctx)
	}
	var a arguments
	if err := s.decode(call.Arguments, &a); err != nil {
		return loop.Output{}, err
	}
	if call.Name == "read_file" {
		return f.read(a)
	}
	text, err := f.work(ctx, call.Name, a)
	return loop.Output{Text: text}, err
}

// work carries out a tool whose result is text.
func (f *Files) work(ctx context.Context, name string, a arguments) (string, error) {
	switch name {
	case "write_file":
		return f.write(a)
	case "edit_file":
		return f.edit(a)
	case "list_files":
		return f.list(ctx, a)
	case "search_files":
		return f.search(ctx, a)
	case "copy_path":
		return f.copy(ctx, a)
	}
	return "", fmt.Errorf("tool %s is described but not built", name)
}

// unknown says that there is no such tool, and which one was probably meant.
func unknown(name string, tools []llm.Tool) error {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return refuse("there is no tool %.80q%s", name, suggestion(name, names))
}
