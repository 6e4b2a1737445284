package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// cleanPath cleans a path from a model. Paths that lead outside through links are refused by os.Root.
func cleanPath(name string) (string, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return "", refuse("the path is empty; give one relative to the workspace, or . for the workspace itself")
	case strings.ContainsRune(name, 0):
		return "", refuse("the path %q contains a NUL byte", name)
	case path.IsAbs(name):
		return "", refuse("the path %s is absolute; give one relative to the workspace", quote(name))
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", refuse("the path %s leads out of the workspace; only files inside can be used", quote(name))
	}
	return clean, nil
}

// writablePath cleans a path for writing. No part of the path may be a link, because a link could lead
// into a read-only directory.
func (f *fileTools) writablePath(name string) (string, error) {
	clean, err := cleanPath(name)
	if err != nil {
		return "", err
	}
	if clean == "." {
		return "", refuse("%s is the workspace itself; name a file in it", quote(name))
	}
	if err := f.readOnly(clean); err != nil {
		return "", err
	}
	parts := strings.Split(clean, "/")
	for i := range parts {
		prefix := path.Join(parts[:i+1]...)
		info, err := f.root.Lstat(prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return clean, nil
		case err != nil:
			return "", explain(prefix, err)
		case info.IsDir() && info.Mode()&0o200 == 0:
			return "", refuse("%s is read-only: %s/ only shows files; copy_path what you need and change the copy", quote(clean), prefix)
		case info.Mode()&fs.ModeSymlink != 0:
			return "", refuse("%s is a symbolic link; write to the file itself", quote(prefix))
		case i < len(parts)-1 && !info.IsDir():
			return "", refuse("%s is a file, so nothing can be written below it", quote(prefix))
		}
	}
	return clean, nil
}

// openRegular opens a regular file with a single link for reading. It does not block on FIFOs and devices.
func (f *fileTools) openRegular(name string) (*os.File, fs.FileInfo, error) {
	info, err := f.root.Stat(name)
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		return nil, nil, explain(name, err)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err = file.Stat()
	if err == nil {
		err = errors.Join(checkRegular(name, info), singleLink(name, info))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, explain(name, err)
	}
	return file, info, nil
}

func (f *fileTools) loadText(name string) (string, fs.FileInfo, error) {
	content, info, err := f.readWhole(name, maxFile, "edited")
	if err == nil && isBinary(content) {
		err = refuse("%s is a binary file of %s; it cannot be edited as text", quote(name), text.Size(info.Size()))
	}
	return string(content), info, err
}

func (f *fileTools) readWhole(name string, limit int64, use string) ([]byte, fs.FileInfo, error) {
	file, info, err := f.openRegular(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, nil, explain(name, err)
	case int64(len(content)) > limit:
		return nil, nil, refuse("%s has more than %s and cannot be %s", quote(name), text.Size(limit), use)
	}
	return content, info, nil
}

// ReadFile reads a regular file of a workspace, of at most limit bytes, subject to the rules of the file
// tools. If they refuse the file, objection is a sentence for the model; an error is a fault of the host.
func ReadFile(workspace, name string, limit int64) (content []byte, objection string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, "", fmt.Errorf("open the workspace: %w", err)
	}
	defer func() { _ = root.Close() }()
	clean, err := cleanPath(name)
	if err == nil {
		content, _, err = (&fileTools{root: root}).readWhole(clean, limit, "read")
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		return nil, string(refused), nil
	}
	return content, "", err
}

func checkRegular(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return refuse("%s is a directory; list_files shows what is in it", quote(name))
	case !info.Mode().IsRegular():
		return refuse("%s is not a regular file (%s)", quote(name), info.Mode().Type())
	}
	return nil
}

// singleLink refuses files with several hard links. Programs such as MCP servers might have created
// links to files outside the workspace.
func singleLink(name string, info fs.FileInfo) error {
	if linkCount(info) > 1 {
		return refuse("%s has several names (hard links), of which some may be outside the workspace; copy it to a new file with cp, which has one", quote(name))
	}
	return nil
}

// linkCount returns the number of hard links to a file, or 1 if the system does not count them.
func linkCount(info fs.FileInfo) uint64 {
	stat := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if stat.Kind() == reflect.Struct {
		if links := stat.FieldByName("Nlink"); links.IsValid() && links.CanUint() {
			return links.Uint()
		}
	}
	return 1
}

// explain converts an error on which the model can act into a refusal, and adds the path to any other error.
func explain(name string, err error) error {
	if _, refused := errors.AsType[refusal](err); refused {
		return err
	}
	pathError, _ := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, outputDir+"/"):
		return refuse("there is no %s; only the newest outputs are kept, and only as long as the step stays on its worker: run the command again", quote(name))
	case errors.Is(err, fs.ErrNotExist):
		return refuse("there is no %s; list_files shows what is there", quote(name))
	case errors.Is(err, fs.ErrPermission):
		return refuse("%s may not be used: permission denied", quote(name))
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("%s goes through a file as if it were a directory", quote(name))
	case errors.Is(err, syscall.EISDIR):
		return refuse("%s is a directory", quote(name))
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("the path %s is too long", quote(name))
	case errors.Is(err, syscall.ELOOP):
		return refuse("%s is a symbolic link that leads in circles", quote(name))
	case errors.Is(err, syscall.ENXIO):
		return refuse("%s is not a regular file", quote(name))
	case pathError != nil && strings.Contains(pathError.Err.Error(), "escapes from parent"):
		return refuse("%s leads out of the workspace by a symbolic link; only files inside can be used", quote(name))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// quote formats a path for a sentence. It adds quotation marks only if the path could be misread.
func quote(name string) string {
	name = text.Truncate(name, 200)
	if strings.ContainsAny(name, " ,;:") {
		return strconv.Quote(name)
	}
	return printable(name)
}

// printable formats a path for one line of a list, because names may contain line breaks.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func isBinary(content []byte) bool {
	return strings.ContainsRune(string(content[:min(len(content), 8<<10)]), 0)
}

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
	schemas map[string]*llm.Schema
	images  int      // images shown so far
	written []string // paths that the current call may have written, never nil
}

// fileSchemas compiles the schemas of the file tools once.
var fileSchemas = sync.OnceValue(func() map[string]*llm.Schema {
	schemas := make(map[string]*llm.Schema)
	for _, t := range llm.FileTools() {
		schemas[t.Name], _ = llm.CompileSchema(t) // the schemas of built-in tools are valid
	}
	return schemas
})

func openFiles(dir string) (*fileTools, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	return &fileTools{root: root, mounts: mountsIn(root), tools: llm.FileTools(), schemas: fileSchemas()}, nil
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
	_, unfit := errors.AsType[llm.ArgumentError](err)
	if refused || unfit {
		return loop.Output{Text: "error: " + err.Error(), Failed: true}, nil
	}
	return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
}

func (f *fileTools) runTool(ctx context.Context, call llm.ToolCall) (out loop.Output, err error) {
	var a arguments
	f.written = []string{}
	if err := f.schemas[call.Name].Decode(call.Arguments, &a); err != nil {
		return loop.Output{}, err
	}
	switch call.Name {
	case "read_file":
		return f.readFile(ctx, a)
	case "write_file":
		out.Text, err = f.writeFile(a)
	case "edit_file":
		out.Text, err = f.editFile(a)
	case "list_files":
		out.Text, err = f.listFiles(ctx, a)
	case "search_files":
		out.Text, err = f.searchFiles(ctx, a)
	case "copy_path":
		out.Text, err = f.copyPath(ctx, a)
	default:
		err = fmt.Errorf("run tool %s: file tools offer it, and have no function for it", call.Name)
	}
	return out, err
}

func unknownTool(name string, tools []llm.Tool) error {
	names := text.Each(tools, func(t llm.Tool) string { return t.Name })
	return refuse("there is no tool %.80q%s", name, llm.SuggestName(name, names))
}

// Names of the read-only directories in a workspace: peers, and in sessions with a base or a
// context also base or context. If the base itself contains an entry with such a name, the
// directory is in .conclave/ instead.
const (
	peers       = "peers"   // directory of the answers shown
	baseName    = "base"    // the files that the workspace started with
	contextName = "context" // directory of further material
	ownDir      = ".conclave"
)

// mountsIn returns the read-only directories of a workspace. All except peers exist, without write
// permissions, when the tools are opened.
func mountsIn(root *os.Root) []string {
	mounts := []string{peers}
	for _, dir := range []string{baseName, contextName, path.Join(ownDir, baseName), path.Join(ownDir, contextName)} {
		info, err := root.Lstat(dir)
		if err == nil && info.IsDir() && info.Mode().Perm()&0o222 == 0 {
			mounts = append(mounts, dir)
		}
	}
	return mounts
}

// readOnly returns an error for a path inside a read-only directory.
func (f *fileTools) readOnly(clean string) error {
	for _, mount := range f.mounts {
		if !strings.EqualFold(clean, mount) && !strings.HasPrefix(strings.ToLower(clean), mount+"/") {
			continue
		}
		switch path.Base(mount) {
		case baseName:
			return refuse("%s is read-only: %s/ holds the files that the workspace started with; change those of the workspace", quote(clean), mount)
		case contextName:
			return refuse("%s is read-only: %s/ holds further material; copy_path what you need and change the copy", quote(clean), mount)
		default:
			return refuse("%s is read-only: peers/ holds the files of the answers shown; copy_path what you need and change the copy", quote(clean))
		}
	}
	return nil
}

// repeatsBase reports whether a directory is the base, which repeats the files of the workspace.
func (f *fileTools) repeatsBase(dir string) bool {
	return path.Base(dir) == baseName && slices.Contains(f.mounts, dir)
}

// describeMounts returns a statement that the directories are read-only; where, which may be empty,
// says where they are.
func describeMounts(mounts []string, where string) string {
	last := len(mounts) - 1
	if last == 0 {
		return mounts[0] + "/ " + where + "is read-only"
	}
	return strings.Join(mounts[:last], "/, ") + "/ and " + mounts[last] + "/ " + where + "are read-only"
}
