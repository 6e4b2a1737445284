package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"conclave/engine/builtin"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Limits of one call.
const (
	maxLines   = 2000      // lines of a file shown at once
	maxOutput  = 48 << 10  // bytes of a result
	maxLine    = 4 << 10   // bytes shown of one line
	maxFile    = 8 << 20   // bytes of a file that is written or edited
	maxEntries = 1000      // most entries listed
	maxMatches = 200       // most lines found
	maxVisited = 100_000   // files and directories visited
	maxCopied  = 10_000    // most files copied
	maxBytes   = 256 << 20 // bytes searched or copied
)

// maxImages bounds the number of images shown in one step.
const maxImages = 20

type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// fileTools implements the file tools of one workspace. It is not safe for concurrent use.
type fileTools struct {
	root    *os.Root
	mounts  []string // read-only directories
	tools   []llm.Tool
	schemas map[string]*builtin.Schema
	images  int      // images shown so far
	written []string // paths that the current call may have written, never nil
}

// fileSchemas compiles the schemas of the file tools once.
var fileSchemas = sync.OnceValues(func() (map[string]*builtin.Schema, error) {
	schemas := make(map[string]*builtin.Schema)
	for _, t := range builtin.Files() {
		s, err := builtin.Compile(t)
		if err != nil {
			return nil, err
		}
		schemas[t.Name] = s
	}
	return schemas, nil
})

func openFiles(dir string) (*fileTools, error) {
	schemas, err := fileSchemas()
	if err != nil {
		return nil, err
	}
	f := &fileTools{tools: builtin.Files(), schemas: schemas}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	f.mounts = mountsIn(f.root)
	return f, nil
}

// arguments has the arguments of all file tools. Each tool's schema lists those that it accepts.
type arguments struct {
	Path       string  `json:"path"`
	Content    string  `json:"content"`
	OldString  string  `json:"old_string"`
	NewString  string  `json:"new_string"`
	ReplaceAll bool    `json:"replace_all"`
	Pattern    string  `json:"pattern"`
	Glob       string  `json:"glob"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Offset     float64 `json:"offset"` // float64 because models also write 2.0
	Limit      float64 `json:"limit"`
}

// toOutput converts a tool's result or error for the loop. A refusal becomes a result.
func toOutput(ctx context.Context, call llm.ToolCall, out loop.Output, err error) (loop.Output, error) {
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return loop.Output{}, fmt.Errorf("%s: %w", call.Name, context.Cause(ctx))
	}
	_, refused := errors.AsType[refusal](err)
	_, unfit := errors.AsType[builtin.ArgumentError](err)
	if refused || unfit {
		return loop.Output{Text: "error: " + err.Error(), Failed: true}, nil
	}
	return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
}

func (f *fileTools) run(ctx context.Context, call llm.ToolCall) (out loop.Output, err error) {
	var a arguments
	f.written = []string{}
	if err := f.schemas[call.Name].Decode(call.Arguments, &a); err != nil {
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
		err = fmt.Errorf("run tool %s: file tools offer it, and have no function for it", call.Name)
	}
	return out, err
}

func unknownTool(name string, tools []llm.Tool) error {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return refuse("there is no tool %.80q%s", name, builtin.Suggest(name, names))
}
