package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"

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
	maxVisited = 100_000   // files and directories visited
	maxCopied  = 10_000    // files copied
	maxBytes   = 256 << 20 // bytes searched or copied
)

// maxImages bounds the images shown in one step.
const maxImages = 20

type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// fileTools are the file tools of one workspace. Calls come one after another.
type fileTools struct {
	root    *os.Root
	tools   []llm.Tool
	schemas map[string]*schema
	images  int // shown so far
}

func openFiles(dir string) (*fileTools, error) {
	list, err := describeFiles()
	if err != nil {
		return nil, err
	}
	f := &fileTools{tools: list, schemas: make(map[string]*schema)}
	for _, t := range f.tools {
		if f.schemas[t.Name], err = compile(t); err != nil {
			return nil, err
		}
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	return f, nil
}

func describeFiles() ([]llm.Tool, error) {
	var list []llm.Tool
	if err := json.Unmarshal(descriptions, &list); err != nil {
		return nil, fmt.Errorf("read the descriptions of the file tools: %w", err)
	}
	return list, nil
}

// toOutput converts a tool's result or error for the loop: a refusal is a result.
func toOutput(ctx context.Context, call llm.ToolCall, out loop.Output, err error) (loop.Output, error) {
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return loop.Output{}, fmt.Errorf("%s: %w", call.Name, context.Cause(ctx))
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		return loop.Output{Text: "error: " + string(refused)}, nil
	}
	return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
}

func (f *fileTools) run(ctx context.Context, call llm.ToolCall) (out loop.Output, err error) {
	var a arguments
	if err := f.schemas[call.Name].decode(call.Arguments, &a); err != nil {
		return loop.Output{}, err
	}
	switch call.Name {
	case "read_file":
		return f.read(a)
	case "write_file":
		out.Text, err = f.write(a)
	case "edit_file":
		out.Text, err = f.edit(a)
	case "list_files":
		out.Text, err = f.list(ctx, a)
	case "search_files":
		out.Text, err = f.search(ctx, a)
	case "copy_path":
		out.Text, err = f.copy(ctx, a)
	default:
		err = fmt.Errorf("tool %s is described but not implemented", call.Name)
	}
	return out, err
}

func unknownTool(name string, tools []llm.Tool) error {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return refuse("there is no tool %.80q%s", name, suggestion(name, names))
}
