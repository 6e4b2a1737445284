package pull

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/activities/tools"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/team"
)

// once is a model that ends a step with its first reply.
type once llm.ToolCall

func (o once) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{
		Message: llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{llm.ToolCall(o)}},
		Usage:   llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1},
	}, nil
}

// decided is a store with a complete session. agent_a answered with files and agent_b without;
// agent_a voted, agent_b stopped, agent_a submitted, and its answer is final.
type decided struct {
	t      *testing.T
	store  *artifact.Dir
	layout artifact.Layout
	now    time.Time
}

func newDecided(t *testing.T) *decided {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	d := &decided{t: t, store: store, layout: artifact.InBucket("s1"), now: time.Date(2026, 11, 21, 5, 30, 48, 100e6, time.UTC)}
	d.put("session.json", artifact.Session{Query: "Why?", Owner: artifact.Owner{WorkflowID: "s1", FirstRunID: "run-1"}})
	d.put("status.json", map[string]string{"status": "consensus", "winner": "agent_a"})

	answers := []coordination.Action{coordination.NewAnswer}
	d.step(coordination.Launch{Agent: "agent_a", Number: 1, Offered: answers}, true, "new_answer", map[string]string{"content": "Because & <so>."})
	d.step(coordination.Launch{Agent: "agent_b", Number: 2, Offered: answers}, false, "new_answer", map[string]string{"content": "Why not?"})
	shown := []coordination.Shown{{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}, {Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}}
	d.step(coordination.Launch{Agent: "agent_a", Number: 1, After: 1, Shown: shown, Offered: []coordination.Action{coordination.Vote}},
		false, "vote", map[string]string{"agent_id": "agent1", "reason": "It is so."})
	d.step(coordination.Launch{Agent: "agent_b", Number: 2, After: 1, Shown: shown, Offered: []coordination.Action{coordination.Stop}},
		false, "stop", map[string]string{"status": "complete", "summary": "All is said."})
	d.step(coordination.Launch{
		Agent: "agent_a", Number: 1, After: 2, Shown: shown, Purpose: coordination.Evaluate, Final: &shown[0],
		Offered: []coordination.Action{coordination.Submit, coordination.RestartTeam},
	}, false, "submit", struct{}{})
	for seq, e := range []coordination.Accepted{
		{Agent: "agent_a", Step: 1, Action: coordination.NewAnswer},
		{Agent: "agent_b", Step: 1, Action: coordination.NewAnswer},
		{Action: coordination.Say, Message: 1, Text: "Be brief."},
		{Agent: "agent_a", Step: 2, Action: coordination.Vote},
		{Agent: "agent_b", Step: 2, Action: coordination.Stop},
	} {
		e.Seq = seq + 1
		require.NoError(t, artifact.PutJSON(t.Context(), store, d.layout.Ledger(e.Seq), team.Entry{Run: "run-1", Accepted: e}))
	}
	d.present(coordination.Decision{Winner: "agent_a", WinnerStep: 1, WinnerLabel: "agent1.1"})
	return d
}

func (d *decided) put(name string, doc any) {
	d.t.Helper()
	require.NoError(d.t, artifact.PutJSON(d.t.Context(), d.store, d.layout.File(name), doc))
}

// step runs a step; with files its workspace has a script, a name that needs escaping
// and a link.
func (d *decided) step(l coordination.Launch, files bool, tool string, arguments any) {
	d.t.Helper()
	data, err := json.Marshal(arguments)
	require.NoError(d.t, err)
	d.now = d.now.Add(time.Second)
	m := team.Step{
		Layout: d.layout, Launch: l, Token: l.Agent + string(rune('0'+l.After)),
		Agents: []string{"agent_a", "agent_b"}, Query: "Why?", Files: true,
	}
	if l.Offered[0] == coordination.Stop {
		m.Team.Orchestrator.CoordinationMode = coordination.Decomposition
		m.Team.Agents = []config.Agent{{ID: "agent_a", Subtask: "Say why."}, {ID: "agent_b", Subtask: "Say why not."}}
	}
	spec, err := m.Spec(d.t.Context(), d.store)
	require.NoError(d.t, err)
	_, err = step.Run(d.t.Context(), step.Ports{
		Store: d.store, Model: once{ID: "c1", Name: tool, Arguments: string(data)}, Scratch: d.t.TempDir(),
		Now: func() time.Time { return d.now },
		Tools: func(ctx context.Context, dir string) (step.Tools, error) {
			if files {
				require.NoError(d.t, os.WriteFile(filepath.Join(dir, "my notes.md"), []byte("notes"), 0o600))
				require.NoError(d.t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o700))
				require.NoError(d.t, os.Symlink("run.sh", filepath.Join(dir, "zz")))
			}
			return tools.Open(ctx, dir, tools.Set{Files: true})
		},
	}, spec)
	require.NoError(d.t, err)
}

func (d *decided) present(decision coordination.Decision) {
	d.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	(&acts.Activities{Process: attempt.Process{Store: d.store, Now: time.Now}}).RegisterBookkeeping(env)
	_, err := env.ExecuteActivity("Present", acts.PresentInput{Session: "s1", Decision: decision})
	require.NoError(d.t, err)
}

// pull copies the session.
func (d *decided) pull() string {
	d.t.Helper()
	dir := d.t.TempDir()
	_, err := copySession(d.t.Context(), d.store, "s1", dir, func(int, int) {})
	require.NoError(d.t, err)
	return dir
}

// problems verifies a directory.
func problems(t *testing.T, dir string) []string {
	t.Helper()
	v, err := verifyDir(t.Context(), dir)
	require.NoError(t, err)
	found := []string{}
	for _, p := range v.Problems {
		found = append(found, p.String())
	}
	return found
}

func TestVerify(t *testing.T) {
	t.Parallel()
	v, err := verifyDir(t.Context(), newDecided(t).pull())
	require.NoError(t, err)
	require.Equal(t, verification{Manifests: 2, Steps: 5, Problems: []problem{}}, v)
}

// directory is a copy to tamper with.
type directory struct {
	t    *testing.T
	root string
}

func (d directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

func (d directory) write(name, content string) {
	require.NoError(d.t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	require.NoError(d.t, os.WriteFile(d.path(name), []byte(content), 0o600))
}

func (d directory) remove(name string) { require.NoError(d.t, os.RemoveAll(d.path(name))) }

func (d directory) replace(name, old, with string) {
	data, err := os.ReadFile(d.path(name))
	require.NoError(d.t, err)
	require.Contains(d.t, string(data), old)
	require.NoError(d.t, os.WriteFile(d.path(name), []byte(strings.ReplaceAll(string(data), old, with)), 0o600))
}

// tampering changes a copy; want are the beginnings of the resulting problems, in order.
type tampering struct {
	tamper func(d directory)
	want   []string
}

// testTampering applies each tampering to its own copy of a session.
func testTampering(t *testing.T, cases map[string]tampering) {
	t.Helper()
	copied := newDecided(t).pull()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := directory{t: t, root: t.TempDir()}
			require.NoError(t, copyTree(d.root, copied))
			tt.tamper(d)
			found := problems(t, d.root)
			require.Len(t, found, len(tt.want), "%q", found)
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(found[i], want), "%q", found)
			}
		})
	}
}

const (
	step1 = "agents/agent_a/001/"
	files = step1 + "workspace/"
)

func TestVerify_workspaces(t *testing.T) {
	t.Parallel()
	testTampering(t, map[string]tampering{
		"a byte":            {func(d directory) { d.replace(files+"my notes.md", "n", "m") }, []string{files + "my notes.md has other content"}},
		"a length":          {func(d directory) { d.write(files+"my notes.md", "") }, []string{files + "my notes.md has 0 bytes, the manifest lists 5"}},
		"not executable":    {func(d directory) { require.NoError(t, os.Chmod(d.path(files+"run.sh"), 0o600)) }, []string{files + "run.sh is not executable"}},
		"executable":        {func(d directory) { require.NoError(t, os.Chmod(d.path(files+"my notes.md"), 0o700)) }, []string{files + "my notes.md is executable"}},
		"a missing file":    {func(d directory) { d.remove(files + "run.sh") }, []string{files + "run.sh is missing"}},
		"all files missing": {func(d directory) { d.remove(step1 + "workspace") }, []string{files + "my notes.md is missing", files + "run.sh is missing", files + "zz is missing"}},
		"extra files": {func(d directory) {
			d.write(files+"node_modules/x.js", "")
			d.write(files+"peers/agent1/x", "")
			d.write(files+".conclaveignore", "run.sh\n")
		}, []string{
			files + ".conclaveignore is extra", files + "node_modules/x.js is extra", files + "peers/agent1/x is extra",
		}},
		"a name that a terminal obeys": {func(d directory) { d.write(files+"a\x1b[2J", "") }, []string{`"` + files + `a\x1b[2J" is extra`}},
		"another link": {func(d directory) {
			d.remove(files + "zz")
			require.NoError(t, os.Symlink("my notes.md", d.path(files+"zz")))
		}, []string{files + `zz is not the link to "run.sh"`}},
		"a file for a link": {func(d directory) {
			d.remove(files + "zz")
			d.write(files+"zz", "#!/bin/sh\n")
		}, []string{files + "zz is not the link"}},
		"a link for a file": {func(d directory) {
			d.remove(files + "run.sh")
			require.NoError(t, os.Symlink("my notes.md", d.path(files+"run.sh")))
		}, []string{files + "run.sh is not the regular file"}},
		"a directory for a file": {func(d directory) {
			d.remove(files + "run.sh")
			d.write(files+"run.sh/x", "")
		}, []string{files + "run.sh/x is extra", files + "run.sh is missing"}},
		"a link for a workspace": {func(d directory) {
			require.NoError(t, os.Rename(d.path(step1+"workspace"), d.path("elsewhere")))
			require.NoError(t, os.Symlink("../../../elsewhere", d.path(step1+"workspace")))
		}, []string{step1 + "workspace is not a directory", files + "my notes.md is missing", files + "run.sh is missing", files + "zz is missing"}},
		"a link for a step": {func(d directory) {
			require.NoError(t, os.Rename(d.path("agents/agent_b/002"), d.path("elsewhere")))
			require.NoError(t, os.Symlink("../../elsewhere", d.path("agents/agent_b/002")))
		}, []string{"agents/agent_b/002 is neither a file nor a directory"}},
		"another hash": {func(d directory) {
			d.replace(step1+"action.json", `"manifest": "`, `"manifest": "0`)
		}, []string{step1 + "workspace.json is not what action.json commits", "final/agent_a/workspace.json is not the manifest of agent1.1"}},
		"a manifest rewritten with its file": {func(d directory) {
			d.replace(step1+"workspace.json", `"mode": 448`, `"mode": 493`)
		}, []string{step1 + "workspace.json is not what action.json commits"}},
		"a manifest that leads out": {func(d directory) { d.replace(step1+"workspace.json", `"zz"`, `"../zz"`) }, []string{step1 + "workspace.json is not a manifest", step1 + "workspace.json is not what"}},
		"a manifest cut short":      {func(d directory) { d.write(step1+"workspace.json", "{") }, []string{step1 + "workspace.json is malformed", step1 + "workspace.json is not what"}},
		"no manifest":               {func(d directory) { d.remove(step1 + "workspace.json") }, []string{step1 + "workspace.json is missing"}},
		"files of a vote":           {func(d directory) { d.write("agents/agent_a/002/workspace/x", "") }, []string{"agents/agent_a/002/workspace/x is extra"}},
		"a manifest of a vote":      {func(d directory) { d.write("agents/agent_a/002/workspace.json", `{"files": []}`) }, []string{"agents/agent_a/002/workspace.json is there, and action.json commits no files"}},
	})
}

// Derived documents agree with the commit.
func TestVerify_steps(t *testing.T) {
	t.Parallel()
	testTampering(t, map[string]tampering{
		"no answer":      {func(d directory) { d.remove(step1 + "answer.json") }, []string{step1 + "answer.json is missing: action.json commits a new_answer"}},
		"no vote":        {func(d directory) { d.remove("agents/agent_a/002/vote.json") }, []string{"agents/agent_a/002/vote.json is missing: action.json commits a vote"}},
		"no stop":        {func(d directory) { d.remove("agents/agent_b/002/stop.json") }, []string{"agents/agent_b/002/stop.json is missing: action.json commits a stop"}},
		"another answer": {func(d directory) { d.replace(step1+"answer.json", "Because", "Since") }, []string{step1 + "answer.json does not agree with action.json: answer"}},
		"another target": {func(d directory) {
			d.replace("agents/agent_a/002/vote.json", `"target": "agent_a"`, `"target": "agent_b"`)
		}, []string{"agents/agent_a/002/vote.json does not agree with action.json: target"}},
		"another stop":              {func(d directory) { d.replace("agents/agent_b/002/stop.json", "complete", "blocked") }, []string{"agents/agent_b/002/stop.json does not agree with action.json: status"}},
		"seen steps of a vote":      {func(d directory) { d.replace("agents/agent_a/002/vote.json", `"agent_b": 1`, `"agent_b": 2`) }, []string{"agents/agent_a/002/vote.json does not agree with action.json: seen_steps"}},
		"an answer that is no JSON": {func(d directory) { d.write(step1+"answer.json", "{") }, []string{step1 + "answer.json is malformed"}},
		"two actions":               {func(d directory) { d.write(step1+"vote.json", "{}") }, []string{step1 + "vote.json is there, and action.json commits a new_answer"}},
		"a vote where none belongs": {func(d directory) { d.write("agents/agent_a/003/vote.json", "{}") }, []string{"agents/agent_a/003/vote.json is there, and action.json commits a submit"}},
		"an action of an unknown":   {func(d directory) { d.replace("agents/agent_a/002/action.json", `"kind": "vote"`, `"kind": "veto"`) }, []string{`agents/agent_a/002/action.json cannot be verified: a committed action of the unknown kind "veto"`, "agents/agent_a/002/action.json is a veto"}},
		"a commit that is no JSON":  {func(d directory) { d.write("agents/agent_a/002/action.json", "{") }, []string{"agents/agent_a/002/action.json is malformed"}},
		"another transcript":        {func(d directory) { d.replace(step1+"transcript.jsonl", "Why", "Who") }, []string{step1 + "transcript.jsonl is not what action.json commits"}},
		"no claim":                  {func(d directory) { d.remove(step1 + "step.json") }, []string{step1 + "step.json is missing: action.json commits the step"}},
		"no last action":            {func(d directory) { d.remove("agents/agent_b/last_action.json") }, []string{"agents/agent_b/last_action.json is missing, and there is a committed step"}},
		"no events": {func(d directory) {
			d.write("status.json", `{"status": "consensus", "winner": "agent_a", "events": 7}`)
		}, []string{"events.jsonl is missing, and status.json counts 7 events"}},
		"no transcript": {func(d directory) { d.remove(step1 + "transcript.jsonl") }, []string{step1 + "transcript.jsonl is missing"}},
	})
}

// The final answer is an answer of a step, with its files.
func TestVerify_final(t *testing.T) {
	t.Parallel()
	testTampering(t, map[string]tampering{
		"no final answer":            {func(d directory) { d.remove("final") }, []string{"final is missing: by status.json the session ended as consensus, for agent_a"}},
		"final without its text":     {func(d directory) { d.remove("final/agent_a/answer.json") }, []string{"final/agent_a/answer.json is missing"}},
		"another final answer":       {func(d directory) { d.replace("final/agent_a/answer.json", "Because", "Since") }, []string{"final/agent_a/answer.json is none of the answers of agent_a"}},
		"a final answer of another":  {func(d directory) { d.replace("final/agent_a/answer.json", "agent_a", "agent_b") }, []string{"final/agent_a/answer.json is an answer of agent_b"}},
		"another final label":        {func(d directory) { d.replace("final/agent_a/answer.json", "agent1.final", "agent2.final") }, []string{"final/agent_a/answer.json has the label agent2.final, and its source has agent1.1"}},
		"a final answer that is bad": {func(d directory) { d.write("final/agent_a/answer.json", "{") }, []string{"final/agent_a/answer.json is malformed"}},
		"a byte of a final file":     {func(d directory) { d.replace("final/agent_a/workspace/run.sh", "sh", "zs") }, []string{"final/agent_a/workspace/run.sh has other content"}},
		"no final manifest":          {func(d directory) { d.remove("final/agent_a/workspace.json") }, []string{"final/agent_a/workspace.json is missing: agent1.1, which this is made from, has files"}},
		"two final answers":          {func(d directory) { d.write("final/agent_b/x", "") }, []string{"final has the answers of agent_a, agent_b", "final/agent_b/answer.json is missing"}},
		"a status that is no JSON": {func(d directory) {
			d.remove("final")
			d.write("status.json", "{")
		}, []string{"status.json is malformed"}},
	})
}

// copyTree copies files, links and modes.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case e.IsDir():
			return os.Mkdir(target, 0o755)
		case e.Type() == os.ModeSymlink:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
}

// A presenter without files presents those of the winning answer.
func TestVerify_presentedAnswer(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	winner := coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}
	d.step(coordination.Launch{
		Agent: "agent_b", Number: 2, After: 2, Purpose: coordination.Present, Shown: []coordination.Shown{winner},
		Brief: &coordination.Brief{Strategy: "winner_present", Label: winner.Label}, Offered: []coordination.Action{coordination.NewAnswer},
	}, false, "new_answer", map[string]string{"content": "All in all: because."})
	d.present(coordination.Decision{
		Winner: "agent_a", WinnerStep: 1, WinnerLabel: "agent1.1",
		Final: &coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.final", Step: 3},
	})
	dir := directory{t: t, root: d.pull()}
	require.Empty(t, problems(t, dir.root))
	require.FileExists(t, dir.path("final/agent_b/workspace.json"))

	dir.write("final/agent_b/workspace.json", `{"files": []}`)
	require.Contains(t, problems(t, dir.root), "final/agent_b/workspace.json is not the manifest of agent2.final, which this is made from")
}

// Steps of other programs have neither commits nor manifests.
func TestVerify_stepsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	d := directory{t: t, root: newDecided(t).pull()}
	d.write("agents/agent_c/001/answer.json", `{"agent_id": "agent_c", "answer": "Maybe.", "timestamp": "2026-03-20T22:31:22.915180+00:00", "label": "agent3.1"}`)
	d.write("agents/agent_c/001/workspace/notes.md", "x")
	d.remove("final")
	d.write("final/agent_c/answer.json", `{"agent_id": "agent_c", "answer": "Maybe.", "timestamp": "2026-03-20T22:31:22.915180Z", "label": "agent3.final"}`)
	require.Empty(t, problems(t, d.root))
	d.write("agents/agent_c/001/answer.json", "")
	require.Len(t, problems(t, d.root), 2)
}

func TestVerify_missingDirectory(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "never")
	_, err := verifyDir(t.Context(), missing)
	require.ErrorContains(t, err, missing)
	require.NoDirExists(t, missing)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = verifyDir(ctx, newDecided(t).pull())
	require.ErrorIs(t, err, context.Canceled)
}

// Damage in the store is reported after everything else has been copied.
func TestCopySession_copiesUndamagedFiles(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	script, notes := bucket{t: t, layout: d.layout}.blob("#!/bin/sh\n"), bucket{t: t, layout: d.layout}.blob("notes")
	for _, name := range []string{"run.sh", "my=20notes.md"} { // a bucket has only blobs
		require.NoError(t, d.store.Delete(t.Context(), d.layout.File(files+name)))
	}
	require.NoError(t, d.store.Delete(t.Context(), script))
	require.NoError(t, d.store.Put(t.Context(), notes, strings.NewReader("potes")))
	dir := t.TempDir()
	summary, err := copySession(t.Context(), d.store, "s1", dir, func(int, int) {})
	require.NoError(t, err)
	require.Equal(t, []problem{
		{Path: files + "my notes.md", Problem: "was left out: content does not match its sha256"},
		{Path: files + "run.sh", Problem: "was left out: open \"" + script + "\": object not found"},
	}, summary.LeftOut)
	require.Equal(t, "consensus", summary.Status)
	require.FileExists(t, filepath.Join(dir, "final/agent_a/answer.json"))
	require.Len(t, problems(t, dir), 2)
}

// A copy has the transcripts that the commits name: the store may have that of another attempt in the
// place, and an earlier pull may have copied that.
func TestCopySession_lateTranscript(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	key := d.layout.File(step1 + "transcript.jsonl")
	committed, err := d.store.Get(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, d.store.Put(t.Context(), key, strings.NewReader(`{"kind":"opening","messages":[]}`)))
	before := directory{t: t, root: d.pull()}
	require.Len(t, problems(t, before.root), 1, "the store has lost it")

	_, err = artifact.PutBlob(t.Context(), d.store, d.layout, committed)
	require.NoError(t, err)
	require.Empty(t, problems(t, d.pull()))
	_, err = copySession(t.Context(), d.store, "s1", before.root, func(int, int) {})
	require.NoError(t, err)
	require.Empty(t, problems(t, before.root))

	require.NoError(t, d.store.Delete(t.Context(), key)) // the worker died before it wrote the file
	require.Empty(t, problems(t, d.pull()))
}

// Each entry of the ledger has a step with its action.
func TestVerify_ledger(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tamper func(d directory)
		want   string
	}{
		"a step is gone": {
			func(d directory) { d.remove("agents/agent_b/001") },
			"agents/agent_b/001/action.json is missing, and entry 2 of the ledger counts it",
		},
		"another action": {
			func(d directory) { d.replace("ledger/000004.json", `"vote"`, `"stop"`) },
			"agents/agent_a/002/action.json is a vote; entry 4 of the ledger says stop",
		},
		"an entry is gone": {
			func(d directory) { d.remove("ledger/000002.json"); d.write("ledger/000002.json", `{"seq": 5}`) },
			"ledger/000002.json cannot be followed: it has entry 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := directory{t: t, root: newDecided(t).pull()}
			tt.tamper(d)
			found := problems(t, d.root)
			require.True(t, slices.ContainsFunc(found, func(p string) bool { return strings.HasPrefix(p, tt.want) }), "%q", found)
		})
	}
}

// The answer of a session names files by their paths in the bucket.
func TestVerify_rewrittenPaths(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	dir := directory{t: t, root: d.pull()}
	for _, name := range []string{step1 + "action.json", step1 + "answer.json", "final/agent_a/answer.json"} {
		dir.replace(name, "Because", "See /workspace/run.sh and peers/agent2/x. Because")
	}
	found := problems(t, dir.root)
	require.Equal(t, []string{step1 + "answer.json does not agree with action.json: answer", "final/agent_a/answer.json is none of the answers of agent_a: text or timestamp agree with no step"}, found)
	for _, name := range []string{step1 + "answer.json", "final/agent_a/answer.json"} {
		dir.replace(name, "See /workspace/run.sh", "See run.sh")
	}
	require.Empty(t, problems(t, dir.root))
}
