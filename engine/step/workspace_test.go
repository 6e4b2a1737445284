package step_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// unstorable is a name that is too long for a key.
var unstorable = strings.Repeat("é", 50)

func writeCall(path, content string) llm.Message {
	return call("write_file", map[string]string{"path": path, "content": content})
}

// turned returns the updates that refused actions.
func turned(r *rules) []string {
	var outputs []string
	for _, e := range r.learned {
		if e.Kind == loop.Updated {
			outputs = append(outputs, e.Messages[len(e.Messages)-1].Content)
		}
	}
	return outputs
}

// again runs a second attempt with its own rules after the first one ended without an action.
func again(t *testing.T, b *bench, r *rules, replies ...llm.Message) step.Result {
	t.Helper()
	b.spec.Attempt.Number++
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
		return r, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
	}
	result, err := b.run(replies...)
	require.NoError(t, err)
	return result
}

func manifest(t *testing.T, b *bench, r step.Result) []string {
	t.Helper()
	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, r.Commit.Manifest)
	require.NoError(t, err)
	var paths []string
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// A file that cannot be part of an answer does not prevent others from being journaled.
func TestJournal_unstorableFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(writeCall("before", "x"), writeCall(unstorable, "x"), writeCall("after", "x"), writeCall("before", "changed"))
	require.ErrorIs(t, err, errScriptOver)
	r := &rules{}
	result := again(t, b, r, read("before"), done("Two."))
	require.Equal(t, []string{"after", "before"}, manifest(t, b, result))
	outputs := results(r.learned)
	require.Contains(t, outputs[len(outputs)-1], "changed")
}

// acting are rules that accept any text as an action, even with tool calls in the same reply.
type acting struct{ *rules }

func (a acting) Judge(reply llm.Message) loop.Ruling {
	if reply.Content == "" {
		return loop.Ruling{}
	}
	return a.rules.Judge(done(reply.Content))
}

// The files of a withdrawn action are journaled.
func TestJournal_withdrawnAction(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
		return acting{r}, []llm.Message{{Role: llm.User, Content: "How many moons has Mars?"}}, nil
	}
	both := writeCall("late", "x")
	both.Content = "One."
	ports := b.ports(writeCall("plan", "x"))
	ports.Model = &linking{Model: ports.Model, at: 2, then: both, do: func() {
		require.NoError(t, os.Symlink("/etc/hosts", filepath.Join(b.work, "hosts")))
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, errScriptOver)
	require.Len(t, turned(r), 1)
	result := again(t, b, &rules{}, writeCall("more", "x"), done("Two."))
	require.Equal(t, []string{"late", "more", "plan"}, manifest(t, b, result))
}

// linking is a model that runs a function before one of its replies.
type linking struct {
	loop.Model
	at    int
	do    func()
	then  llm.Message
	calls int
}

func (l *linking) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if l.calls++; l.calls == l.at {
		l.do()
		return llm.Reply{Message: l.then, Usage: llm.Usage{ModelCalls: 1}}, nil
	}
	return l.Model.Generate(ctx, req)
}

// The files of an answer do not depend on interruptions.
func TestResume_ignoreFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(writeCall(".conclaveignore", ".conclaveignore\nbuild/\n"), writeCall("build/out", "x"), writeCall("kept", "x"))
	require.ErrorIs(t, err, errScriptOver)
	result := again(t, b, &rules{}, writeCall("build/again", "x"), done("Two."))
	require.Equal(t, []string{".conclaveignore", "kept"}, manifest(t, b, result))
}

// Paths of the worker's machine are not shown to the model.
func TestConfirm_noLocalPaths(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	_, err := b.run(writeCall(unstorable, "x"), done("One."), writeCall(".conclaveignore", "é*\n"), done("Two."))
	require.NoError(t, err)
	outputs := turned(r)
	require.Len(t, outputs, 1)
	require.Contains(t, outputs[0], unstorable)
	require.NotContains(t, outputs[0], b.scratch)
	require.NotContains(t, outputs[0], "scan workspace")
}

// The agent is warned once about files that its answer omits.
func TestConfirm_filesLeftOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		links int
		more  string
	}{"one": {1, ""}, "as many as are named": {10, ""}, "more": {13, "and 3 more"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rules{}
			b := newBench(t, r)
			ports := b.ports(done("Two."))
			ports.Model = &linking{Model: ports.Model, at: 1, then: done("One."), do: func() {
				for i := range tt.links {
					require.NoError(t, os.Symlink("/etc/hosts", filepath.Join(b.work, fmt.Sprintf("link%02d", i))))
				}
			}}
			result, err := step.Run(t.Context(), ports, b.spec)
			require.NoError(t, err)
			require.JSONEq(t, `"Two."`, string(result.Commit.Payload))
			require.Len(t, result.Warnings, tt.links)
			outputs := turned(r)
			require.Len(t, outputs, 1)
			require.Contains(t, outputs[0], `"link00" (it is a link to "/etc/hosts", outside the workspace)`)
			require.Equal(t, min(tt.links, 10), strings.Count(outputs[0], `"link`))
			require.Equal(t, tt.more != "", strings.Contains(outputs[0], " more"))
			require.Contains(t, outputs[0], tt.more)
		})
	}
}

// Files that git or an apply would take for its own are in no answer, whatever .conclaveignore
// says, and the agent reads why.
func TestConfirm_reservedNames(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	result, err := b.run(
		writeCall(".conclaveignore", "!.git\n!.git/\n"), writeCall(".git/hooks/pre-commit", "id"), writeCall("src/.git", "gitdir: .x"), writeCall("src/.x/config", "[core]"),
		writeCall(".conclave-apply/journal", "x"), writeCall(".conclave/checks/a.sh", "true"), done("One."), done("Two."),
	)
	require.NoError(t, err)
	outputs := turned(r)
	require.Len(t, outputs, 1)
	require.Equal(t, `Nothing was submitted yet: these files are left out of your answer: `+
		`".conclave-apply" (".conclave-apply" is where conclave keeps the files of an apply that runs or was interrupted: choose another name), `+
		`".git" (".git" is git's name for its own files: choose another), "src/.git" (".git" is git's name for its own files: choose another). `+
		`Submit again if that is as it should be, or correct it first.`, outputs[0])
	require.Equal(t, []string{".conclave/checks/a.sh", ".conclaveignore", "src/.x/config"}, manifest(t, b, result))
	require.Len(t, result.Warnings, 3)
}

// An action without files omits none.
func TestConfirm_noFiles(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Seal = func(a loop.Action) (step.Sealed, error) { return step.Sealed{Payload: a.Payload}, nil }
	ports := b.ports()
	ports.Model = &linking{Model: ports.Model, at: 1, then: done("One."), do: func() {
		require.NoError(t, os.Symlink("/etc/hosts", filepath.Join(b.work, "hosts")))
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Empty(t, turned(r))
}

// spying runs a function when a large object is stored.
type spying struct {
	artifact.Store
	look func()
}

func (s spying) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if size, err := body.Seek(0, io.SeekEnd); err == nil && size > 1<<20 {
		s.look()
	}
	_, err := body.Seek(0, io.SeekStart)
	return errors.Join(err, s.Store.Put(ctx, key, body))
}

// Temporary copies are in the step's directory, so that they are removed with it after a kill.
func TestWorkspace_temporaryCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	var beside []string
	ports := b.ports(done("One."))
	ports.Store = spying{Store: b.store, look: func() {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(b.work), "conclave-snapshot-*"))
		require.NoError(t, err)
		beside = append(beside, found...)
	}}
	ports.Model = &linking{Model: ports.Model, at: 1, then: done("One."), do: func() {
		require.NoError(t, os.WriteFile(filepath.Join(b.work, "large"), make([]byte, 2<<20), 0o600))
	}}
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, []string{"large"}, manifest(t, b, result))
	require.Len(t, beside, 1)
	require.Empty(t, func() []os.DirEntry { left, _ := os.ReadDir(b.scratch); return left }())
}
