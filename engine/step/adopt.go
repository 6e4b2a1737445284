package step

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// AdoptFiles is the name of the tool that replaces the files of the workspace with those of an answer.
const AdoptFiles = "adopt_files"

const adoptDescription = "Make your workspace the files of an answer that you are shown, all at once: " +
	"the base with the change of that answer. It replaces what you have changed before."

// adopting adds AdoptFiles to the tools of a step.
type adopting struct {
	opened    Tools
	workspace *workspace
}

func (a adopting) Tools() []llm.Tool { return append(slices.Clone(a.opened.Tools()), a.newTool()) }

func (a adopting) Close() error { return a.opened.Close() }

func (a adopting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if call.Name != AdoptFiles {
		return a.opened.Run(ctx, call)
	}
	schema, err := llm.CompileSchema(a.newTool())
	if err != nil {
		return loop.Output{}, err
	}
	var arguments struct {
		Agent string `json:"agent_id"`
	}
	err = schema.Decode(call.Arguments, &arguments)
	if unfit, ok := errors.AsType[llm.ArgumentError](err); ok {
		return loop.Output{Text: "error: " + unfit.Error(), Failed: true}, nil
	}
	if err != nil {
		return loop.Output{}, err
	}
	manifest, shown := a.workspace.peers[arguments.Agent]
	if !shown {
		return loop.Output{Text: fmt.Sprintf("error: you are shown no answer of %.80q with changed files", arguments.Agent), Failed: true}, nil
	}
	written, removed, err := a.workspace.replaceFiles(ctx, manifest)
	if err != nil {
		return loop.Output{}, fmt.Errorf("adopt the files of %s: %w", arguments.Agent, err)
	}
	return loop.Output{Text: fmt.Sprintf("your workspace has the files of %s now: %d written, %d removed", arguments.Agent, written, removed)}, nil
}

// newTool describes AdoptFiles for the answers that are mounted now.
func (a adopting) newTool() llm.Tool {
	return llm.NewTool(AdoptFiles, adoptDescription, map[string]llm.Property{
		"agent_id": {Type: "string", Description: "Whose files you take.", Enum: slices.Sorted(maps.Keys(a.workspace.peers))},
	}, "agent_id")
}

// replaceFiles replaces the files of the workspace with those of a manifest. It returns the numbers of files
// that it wrote and removed. It keeps files that belong to no answer unless they are in the way.
func (w *workspace) replaceFiles(ctx context.Context, manifest string) (written, removed int, err error) {
	wanted, err := artifact.LoadManifest(ctx, w.store, w.layout, manifest)
	if err != nil {
		return 0, 0, err
	}
	if err := w.scanChanges(ctx); err != nil {
		return 0, 0, err
	}
	now := w.copy.Manifest()
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	goes, changed := filesBetween(now, wanted)
	for _, f := range goes {
		if err := clearPath(root, f); err != nil {
			return 0, 0, err
		}
	}
	for _, f := range changed {
		if f.Dir {
			continue
		}
		if err := root.RemoveAll(f.Path); err != nil {
			return 0, 0, err
		}
	}
	w.copy.MarkStored(wanted)
	err = artifact.Manifest{Files: changed}.Restore(ctx, w.store, w.layout, w.dir, false)
	return len(changed), len(goes), err
}

// filesBetween returns the paths that only the first tree has, and the files of the second tree
// that the first lacks or has in another version.
func filesBetween(now, wanted artifact.Manifest) (goes []string, changed []artifact.File) {
	have := make(map[string]artifact.File, len(now.Files))
	for _, f := range now.Files {
		have[f.Path] = f
	}
	for _, f := range wanted.Files {
		if old, ok := have[f.Path]; !ok || old != f {
			changed = append(changed, f)
		}
		delete(have, f.Path)
	}
	return slices.Sorted(maps.Keys(have)), changed
}

// clearPath removes a file, and the directories that it leaves empty.
func clearPath(root *os.Root, name string) error {
	err := root.Remove(name)
	if info, gone := root.Lstat(name); gone != nil && errors.Is(gone, fs.ErrNotExist) || gone == nil && info.IsDir() {
		err = nil // a directory has ignored files
	}
	for dir := path.Dir(name); err == nil && dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break
		}
	}
	return err
}
