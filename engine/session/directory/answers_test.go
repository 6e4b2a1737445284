package directory

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
)

func (s sessionDirectory) store() *artifact.Dir {
	s.t.Helper()
	store, err := artifact.NewDir(s.dir)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, store.Close()) })
	return store
}

// shown returns an agent's latest answer as shown to a step of runner: text, files and warnings.
func (s sessionDirectory) shown(agent, runner string) (text string, files []artifact.File, warnings []string) {
	s.t.Helper()
	d, _ := s.read()
	l, err := d.Launch(runner, coordination.Config{})
	require.NoError(s.t, err)
	store := s.store()
	answers := d.Answers(s.root, store, artifact.Layout{}, s.dir, d.With(runner).IDs(), s.t.TempDir())
	for _, shown := range l.Shown {
		if shown.Agent != agent {
			continue
		}
		c, err := answers.Commit(s.t.Context(), shown)
		require.NoError(s.t, err)
		require.Equal(s.t, "new_answer", c.Kind)
		var payload session.Answer
		require.NoError(s.t, json.Unmarshal(c.Payload, &payload))
		require.Equal(s.t, shown.Label, payload.Label)
		m, err := artifact.LoadManifest(s.t.Context(), store, artifact.Layout{}, c.Manifest)
		require.NoError(s.t, err)
		for _, w := range answers.Warnings() {
			warnings = append(warnings, w.String())
		}
		return payload.Answer, m.Files, warnings
	}
	require.Fail(s.t, "not shown")
	return "", nil, nil
}

func paths(files []artifact.File) []string {
	names := []string{}
	for _, f := range files {
		names = append(names, f.Path)
	}
	return names
}

// Links to targets outside the workspace and special files are omitted with a warning.
func TestAnswers_foreignWorkspace(t *testing.T) {
	t.Parallel()
	outside := newSession(t, map[string]string{"secret": "secret"})
	s := newSession(t, map[string]string{
		"agents/a/001/answer.json":                          answerJSON("A"),
		"agents/a/001/workspace/run.sh":                     "#!/bin/sh\n",
		"agents/a/001/workspace/docs/notes.txt":             "notes",
		"agents/a/001/workspace/.git/config":                "left out",
		"agents/a/001/workspace/sub/.massgen/log":           "left out",
		"agents/a/001/workspace/.claude/settings":           "left out",
		"agents/a/001/workspace/peers/agent1/x":             "left out",
		"agents/a/001/workspace/" + strings.Repeat("é", 90): "no key holds its name",
		"agents/b/001/answer.json":                          answerJSON("B"),
		"agents/b/001/workspace/empty/":                     "",
		"agents/c/001/answer.json":                          answerJSON("C"),
	})
	ws := "agents/a/001/workspace/"
	require.NoError(t, os.Chmod(s.path(ws+"run.sh"), 0o750))
	s.link("docs/notes.txt", ws+"inside")
	s.link(outside.path("secret"), ws+"absolute")
	s.link("../../../../secret", ws+"above")
	s.link(outside.dir, ws+"dir")
	s.link("absolute", ws+"around")
	require.NoError(t, syscall.Mkfifo(s.path(ws+"fifo"), 0o644))

	text, files, warnings := s.shown("a", "b")
	require.Equal(t, "A", text)
	require.Equal(t, []string{"docs/notes.txt", "inside", "run.sh"}, paths(files))
	require.Equal(t, uint32(0o750), files[2].Mode)
	require.Equal(t, "docs/notes.txt", files[1].Link)
	require.Len(t, warnings, 6)
	for i, name := range []string{"above", "absolute", "around", "dir", "fifo"} {
		require.Contains(t, warnings[i], ws+name+": was left out")
	}

	_, files, _ = s.shown("b", "b")
	require.Empty(t, files, "empty directories are no files")
	_, files, _ = s.shown("c", "b")
	require.Empty(t, files)
}

// A link in place of a workspace is ignored, even if it replaces the workspace later.
func TestAnswers_workspaceIsALink(t *testing.T) {
	t.Parallel()
	outside := newSession(t, map[string]string{"secret": "secret"})
	s := newSession(t, map[string]string{"agents/a/001/answer.json": answerJSON("A"), "other/file": "x"})
	s.link(outside.dir, "agents/a/001/workspace")
	_, files, _ := s.shown("a", "b")
	require.Empty(t, files)
	require.NoError(t, os.Remove(s.path("agents/a/001/workspace")))
	s.link("../../../other", "agents/a/001/workspace")
	_, files, _ = s.shown("a", "b")
	require.Empty(t, files)
}

// The manifest of a commit is used if all its blobs exist; otherwise the files beside the answer
// are used.
func TestAnswers_committedWorkspace(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{"agents/a/001/workspace/changed.txt": "changed since"})
	work := newSession(t, map[string]string{"as-committed.txt": "x"})
	store := s.store()
	m, hash, err := artifact.OpenWorkingCopy(store, artifact.Layout{}, work.dir, "").Seal(t.Context())
	require.NoError(t, err)
	s.write("agents/a/001/action.json", `{"token": "t", "kind": "new_answer", "payload": {"answer": "A"}, "manifest": "`+hash+`"}`)
	_, files, _ := s.shown("a", "b")
	require.Equal(t, []string{"as-committed.txt"}, paths(files))

	require.NoError(t, store.Delete(t.Context(), artifact.Layout{}.Blob(m.Files[0].SHA256)))
	_, files, _ = s.shown("a", "b")
	require.Equal(t, []string{"changed.txt"}, paths(files))

	s.write("agents/a/001/action.json", `{"token": "t", "kind": "new_answer", "payload": {"answer": "A"}, "manifest": "../../etc/passwd"}`)
	_, files, _ = s.shown("a", "b")
	require.Equal(t, []string{"changed.txt"}, paths(files))
}

// Paths of workspaces are rewritten as paths below peers/, even if the directory has been moved
// since the answer was written. No agent's ID remains.
func TestAnswers_paths(t *testing.T) {
	t.Parallel()
	files := map[string]string{"agents/agent_a/001/answer.json": answerJSON("A"), "agents/agent_b/012/answer.json": answerJSON("B")}
	s := newSession(t, files)
	alias := filepath.Join(t.TempDir(), "with a space")
	require.NoError(t, os.Symlink(s.dir, alias))
	for text, want := range map[string]string{
		s.dir + "/agents/agent_a/001/workspace/x.txt":                                                "peers/agent1/x.txt",
		alias + "/agents/agent_a/001/workspace":                                                      "",
		"See /elsewhere/s-1/agents/agent_b/012/workspace/a b.txt, and agents/agent_a/001/workspace.": "See peers/agent2/a b.txt, and peers/agent1.",
		"[x](/s/agents/agent_a/001/workspace/x) `/s/agents/agent_b/012/workspace`":                   "[x](peers/agent1/x) `peers/agent2`",
		"file:///s/agents/agent_a/001/workspace/x":                                                   "file:peers/agent1/x",
		"/s/agents/agent_z/001/workspace/x":                                                          "/s/agents/agent_z/001/workspace/x",
		"/s/agents/agent_a/001/workspaces/x":                                                         "/s/agents/agent_a/001/workspaces/x",
		"/s/myagents/agent_a/001/workspace":                                                          "/s/myagents/agent_a/001/workspace",
		"nothing, said agent_a":                                                                      "nothing, said agent_a",
	} {
		s.write("agents/agent_b/012/answer.json", answerJSON(text))
		got, _, _ := s.shown("agent_b", "agent_a")
		if want == "" { // another name of the directory, which nobody knows
			require.NotContains(t, got, "agent_a")
			require.Contains(t, got, "peers/agent1")
			continue
		}
		require.Equal(t, want, got)
	}
}

// An agent that joins shifts the numbers of others. Numbers in older answers are replaced by the
// current ones.
func TestNumbersInAnAnswer(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/b/001/answer.json": answerJSON("B"),
		"agents/c/001/step.json": `{"token": "t", "seen_steps": {"b": 1}, "labels": ["agent1.1"], "agents": ["b", "c"]}`,
	})
	for text, want := range map[string]string{
		"agent1.1 has it in peers/agent1/x.md, as (agent1.1) says.":         "agent2.1 has it in peers/agent2/x.md, as (agent2.1) says.",
		"/tmp/w-1/conclave-step-1/files/peers/agent1/x and peers/agent1.md": "peers/agent2/x and peers/agent2.md",
		"Mine: /tmp/w-1/conclave-step-1/files/y.":                           "Mine: peers/agent3/y.",
		"/s/agents/a/001/workspace/z beside peers/agent2/y":                 "peers/agent1/z beside peers/agent3/y",
		"agent1.2 and agent2.1 it was not shown; agent1 is a word.":         "agent1.2 and agent2.1 it was not shown; agent1 is a word.",
		"peers/agent9/x, peers/agent12, speers/agent1 stay.":                "peers/agent9/x, peers/agent12, speers/agent1 stay.",
	} {
		s.write("agents/c/001/action.json", `{"token": "t", "kind": "new_answer", "payload": `+answerJSON(text)+`}`)
		got, _, _ := s.shown("c", "a")
		require.Equal(t, want, got)
	}
	// Without a claim the meaning of numbers is unknown.
	s.write("agents/c/001/step.json", `{"token": "t"}`)
	s.write("agents/c/001/action.json", `{"token": "t", "kind": "new_answer", "payload": `+answerJSON("peers/agent1 and agent1.1")+`}`)
	got, _, _ := s.shown("c", "a")
	require.Equal(t, "peers/agent1 and agent1.1", got)
}

// If another program creates the directory of a number first, the number is taken, and no file is
// written beside the program's action.
func TestNumberThatAnotherProgramTakes(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	d := s.clean()
	l, err := d.Launch("a", coordination.Config{})
	require.NoError(t, err)
	s.write("agents/a/001/answer.json", answerJSON("Theirs.")) // in this very moment
	s.write("agents/a/002/", "")
	store := s.store()
	spec, err := session.Step{Layout: artifact.Layout{}, Launch: l, Token: "t", Agents: []string{"a"}, Query: "Why?"}.Spec(t.Context(), store)
	require.NoError(t, err)
	r, err := step.Run(t.Context(), step.Ports{
		Store: store, Model: &once{name: "new_answer", arguments: `{"content": "Ours."}`}, Now: time.Now, Scratch: t.TempDir(),
		Tools: step.OpenFunc(func(context.Context, string) (step.Tools, error) { return noTools{}, nil }),
	}, AdaptSpec(store, spec))
	require.NoError(t, err)
	require.Equal(t, 3, r.Step)
	require.NoFileExists(t, s.path("agents/a/001/step.json"))
	d = s.clean()
	a, _ := d.Agent("a")
	require.Len(t, a.Answers, 2)
	require.Equal(t, "Ours.", a.Answers[1].Text)
}

func TestAnswerThatIsGone(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{"agents/a/001/answer.json": answerJSON("A")})
	d := s.clean()
	answers := d.Answers(s.root, s.store(), artifact.Layout{}, s.dir, []string{"a"}, "")
	require.NoError(t, os.Remove(s.path("agents/a/001/answer.json")))
	_, err := answers.Commit(t.Context(), coordination.Shown{Agent: "a", Number: 1, Label: "agent1.1", Step: 1})
	require.ErrorContains(t, err, "agents/a/001/ has no answer any more")
}

// noTools is the empty set of tools.
type noTools struct{}

func (noTools) Tools() []llm.Tool { return nil }

func (noTools) Run(context.Context, llm.ToolCall) (loop.Output, error) { return loop.Output{}, nil }

func (noTools) Close() error { return nil }

// once is a model that ends its step with one call and records the request.
type once struct {
	name, arguments string
	asked           llm.Request
}

func (m *once) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	m.asked = r
	calls := []llm.ToolCall{{ID: "c1", Name: m.name, Arguments: m.arguments}}
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, ToolCalls: calls}, Usage: llm.Usage{ModelCalls: 1}}, nil
}

// run runs one step of an agent and returns the prompt. look is called before the model call to
// inspect the workspace.
func (s sessionDirectory) run(agent string, m *once, look func(workspace string)) string {
	s.t.Helper()
	d, _ := s.read()
	l, err := d.Launch(agent, coordination.Config{})
	require.NoError(s.t, err)
	store := s.store()
	answers := d.Answers(s.root, store, artifact.Layout{}, s.dir, d.With(agent).IDs(), s.t.TempDir())
	spec, err := session.Step{
		Layout: artifact.Layout{}, Launch: l, Token: "t-" + agent, Agents: d.With(agent).IDs(),
		Query: "How many moons has Mars?", Commits: answers.Commit,
	}.Spec(s.t.Context(), store)
	require.NoError(s.t, err)
	_, err = step.Run(s.t.Context(), step.Ports{
		Store: store, Model: m, Now: time.Now, Scratch: s.t.TempDir(),
		Tools: step.OpenFunc(func(_ context.Context, workspace string) (step.Tools, error) {
			look(workspace)
			return noTools{}, nil
		}),
	}, spec)
	require.NoError(s.t, err)
	var prompt strings.Builder
	for _, message := range m.asked.Messages {
		prompt.WriteString(message.Content + "\n")
	}
	return prompt.String()
}

// A step can continue the directory of another program. It is shown every answer with its files,
// including its own, without names, and its vote is written to the directory.
func TestStepInADirectoryOfAnotherProgram(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	require.NoError(t, os.CopyFS(s.dir, os.DirFS("testdata/massgen")))
	prompt := s.run("agent_a", &once{name: "vote", arguments: `{"agent_id": "agent3", "reason": "names them"}`}, func(workspace string) {
		data, err := os.ReadFile(filepath.Join(workspace, "peers/agent1/css/site.css"))
		require.NoError(t, err)
		require.Equal(t, "h1 { color: teal }\n", string(data))
		require.FileExists(t, filepath.Join(workspace, "peers/agent2/report.md"))
		require.NoDirExists(t, filepath.Join(workspace, "peers/agent3"))
	})
	for _, want := range []string{
		"agent1.1", "agent2.1", "agent3.2", "Built the page. See peers/agent1/index.html.", "I compared it with peers/agent1 and wrote a report.",
		"Two moons: Phobos and Deimos.",
	} {
		require.Contains(t, prompt, want)
	}
	for _, hidden := range []string{"agent_a", "agent_b", "agent_c", "massgen-run", "agent3.1", "more thorough"} {
		require.NotContains(t, prompt, hidden)
	}

	d, warnings := s.read()
	require.Empty(t, warnings)
	a, _ := d.Agent("agent_a")
	require.Equal(t, &coordination.Voted{
		End: coordination.End{Step: 3}, Choice: coordination.Choice{Target: "agent_c", TargetLabel: "agent3.2", Reason: "names them"},
		Seen: []coordination.Seen{{Agent: "agent_a", Step: 1}, {Agent: "agent_b", Step: 1}, {Agent: "agent_c", Step: 2}},
	}, a.Vote)
	data, err := os.ReadFile(s.path("agents/agent_a/003/vote.json"))
	require.NoError(t, err)
	require.Contains(t, string(data), `"target": "agent_c"`)

	prompt = s.run("agent_b", &once{name: "new_answer", arguments: `{"content": "Phobos and Deimos, two moons."}`}, func(string) {})
	require.Contains(t, prompt, "agent2.1")
	require.Equal(t, "a=voted:agent_c:stale b=answered:agent2.2 c=answered:agent3.2 | next a,b,c", summarize(s.clean().Check(coordination.Config{}, nil)))
}

// An agent whose ID is invalid in configurations takes part like any other, and its ID remains
// hidden.
func TestStepBesideAnAgentWithAForeignID(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{"agents/Gemini 2.5=flash/001/workspace/moons.txt": "two"})
	text := "See " + s.path("agents/Gemini 2.5=flash/001/workspace/moons.txt")
	s.write("agents/Gemini 2.5=flash/001/answer.json", answerJSON(text))
	prompt := s.run("agent_b", &once{name: "vote", arguments: `{"agent_id": "agent1", "reason": "right"}`}, func(workspace string) {
		require.FileExists(t, filepath.Join(workspace, "peers/agent1/moons.txt"))
	})
	require.Contains(t, prompt, "See peers/agent1/moons.txt")
	require.NotContains(t, prompt, "Gemini")

	d := s.clean()
	require.Equal(t, []string{"Gemini 2.5=flash", "agent_b"}, d.IDs())
	b, _ := d.Agent("agent_b")
	require.Equal(t, "Gemini 2.5=flash", b.Vote.Target)
}
