package files

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
	"conclave/activities/workertest"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/step"
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
	root   string // directory of the store
	store  *artifact.Dir
	layout artifact.Layout
	now    time.Time
}

var events = []string{
	`{"seq":1,"kind":"round","text":"round 1"}`,
	`{"seq":2,"kind":"answer","agent":"agent_a","step":1}`,
	`{"seq":3,"kind":"answer","agent":"agent_b","step":1}`,
	`{"seq":4,"kind":"said","agent":"agent_a"}`,
	`{"seq":5,"kind":"vote","agent":"agent_a","step":2}`,
	`{"seq":6,"kind":"stopped","agent":"agent_b","step":2}`,
	`{"seq":7,"kind":"judged","agent":"agent_a","step":3}`,
}

func newDecided(t *testing.T) *decided {
	t.Helper()
	root := t.TempDir()
	store, err := artifact.NewDir(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	d := &decided{t: t, root: root, store: store, layout: artifact.InBucket("s1"), now: time.Date(2026, 11, 21, 5, 30, 48, 100e6, time.UTC)}
	d.put("session.json", artifact.Session{Query: "Why?", Owner: artifact.Owner{WorkflowID: "s1", FirstRunID: "run-1"}})
	d.put("status.json", map[string]any{
		"session_id": "s1", "status": "consensus", "winner": "agent_a", "events": len(events), "final": map[string]string{"agent": "agent_a", "label": "agent1.final"},
	})
	require.NoError(t, store.Put(t.Context(), d.layout.File("events.jsonl"), strings.NewReader(strings.Join(events, "\n")+"\n")))

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
		require.NoError(t, artifact.PutJSON(t.Context(), store, d.layout.Ledger(e.Seq), session.Entry{Run: "run-1", Accepted: e}))
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
	m := session.Step{
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
		Tools: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			if files {
				require.NoError(d.t, os.WriteFile(filepath.Join(dir, "my notes.md"), []byte("notes"), 0o600))
				require.NoError(d.t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o700))
				require.NoError(d.t, os.Symlink("run.sh", filepath.Join(dir, "zz")))
			}
			return tools.Open(ctx, dir, tools.Set{Files: true})
		}),
	}, spec)
	require.NoError(d.t, err)
}

func (d *decided) present(decision coordination.Decision) {
	d.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	(&acts.Activities{Process: attempt.Process{Equipment: &workertest.Worker{}, Store: d.store, Now: time.Now}}).RegisterBookkeeping(env)
	_, err := env.ExecuteActivity("Present", acts.PresentInput{Session: "s1", Decision: decision})
	require.NoError(d.t, err)
}

// verified copies the session from the directory of a store and verifies it. The problems begin with
// the files that were left out.
func verified(t *testing.T, root string) (*verification, []string) {
	t.Helper()
	store, err := artifact.NewDir(root)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	copied, err := copyRun(t.Context(), store, "s1", t.TempDir(), true, func(int, int) {})
	require.NoError(t, err)
	found := []string{}
	for _, p := range slices.Concat(copied.LeftOut, copied.Verified.Problems) {
		found = append(found, p.String())
	}
	return copied.Verified, found
}

func TestVerify(t *testing.T) {
	t.Parallel()
	v, found := verified(t, newDecided(t).root)
	require.Empty(t, found)
	require.Equal(t, &verification{Manifests: 2, Steps: 5, Problems: []problem{}}, v)
}

// directory is the session in the directory of a store, to tamper with.
type directory struct {
	t    *testing.T
	root string
}

func (d directory) path(name string) string {
	return filepath.Join(d.root, "sessions/s1", filepath.FromSlash(name))
}

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

// uncount removes the last entry of the ledger and its event.
func (d directory) uncount(more ...string) {
	d.remove("ledger/000005.json")
	d.write("events.jsonl", strings.Join(append(events[:5:5], more...), "\n")+"\n")
}

const (
	step1 = "agents/agent_a/001/"
	vote  = "agents/agent_a/002/"
	stop  = "agents/agent_b/002/"
	files = step1 + "workspace/"
	final = "final/agent_a/"
)

// faults tamper with a session; want are the beginnings of the problems that this makes.
var faults = map[string]struct {
	tamper func(d directory)
	want   []string
}{
	"an extra file":     {func(d directory) { d.write(files+"node_modules/x.js", "") }, []string{files + "node_modules/x.js is extra"}},
	"another hash":      {func(d directory) { d.replace(step1+"action.json", `"manifest": "`, `"manifest": "0`) }, []string{step1 + "workspace.json has the hash", final + "workspace.json is not the manifest of agents/agent_a/001"}},
	"another mode":      {func(d directory) { d.replace(step1+"workspace.json", `"mode": 448`, `"mode": 493`) }, []string{step1 + "workspace.json has the hash"}},
	"a path leads out":  {func(d directory) { d.replace(step1+"workspace.json", `"zz"`, `"../zz"`) }, []string{step1 + "workspace.json cannot be used"}},
	"half a manifest":   {func(d directory) { d.write(step1+"workspace.json", "{") }, []string{step1 + "workspace.json cannot be used"}},
	"no manifest":       {func(d directory) { d.remove(step1 + "workspace.json") }, []string{step1 + "workspace.json has the hash \"\""}},
	"no answer":         {func(d directory) { d.remove(step1 + "answer.json") }, []string{step1 + "answer.json is missing", final + "answer.json is missing or not the answer of agents/agent_a/001"}},
	"no vote":           {func(d directory) { d.remove(vote + "vote.json") }, []string{vote + "vote.json is missing"}},
	"no stop":           {func(d directory) { d.remove(stop + "stop.json") }, []string{stop + "stop.json is missing"}},
	"another answer":    {func(d directory) { d.replace(step1+"answer.json", "Because", "Since") }, []string{step1 + "answer.json is missing or not what action.json commits", final + "answer.json is missing or not"}},
	"another target":    {func(d directory) { d.replace(vote+"vote.json", `"target": "agent_a"`, `"target": "agent_b"`) }, []string{vote + "vote.json is missing or not"}},
	"another status":    {func(d directory) { d.replace(stop+"stop.json", "complete", "blocked") }, []string{stop + "stop.json is missing or not"}},
	"other seen steps":  {func(d directory) { d.replace(vote+"vote.json", `"agent_b": 1`, `"agent_b": 2`) }, []string{vote + "vote.json is missing or not"}},
	"two actions":       {func(d directory) { d.write(step1+"vote.json", "{}") }, []string{step1 + "vote.json is there, and action.json commits a new_answer"}},
	"a vote by a judge": {func(d directory) { d.write("agents/agent_a/003/vote.json", "{}") }, []string{"agents/agent_a/003/vote.json is there, and action.json commits a submit"}},
	"an agent is lost": {func(d directory) {
		d.remove("ledger")
		d.remove("events.jsonl")
		d.remove("agents/agent_b")
		d.remove("agents/agent_a/003")
		d.replace("status.json", `"events": 7`, `"agents": [{"id": "agent_a", "step": 3}, {"id": "agent_b", "step": 1}]`)
	}, []string{"agents/agent_a/003 is missing", "agents/agent_b/001 is missing"}},
	"an unknown action":  {func(d directory) { d.replace(vote+"action.json", `"kind": "vote"`, `"kind": "veto"`) }, []string{vote + `action.json commits "veto", and the ledger counts "vote"`, vote + "vote.json is there"}},
	"half a commit":      {func(d directory) { d.write(vote+"action.json", "{") }, []string{vote + "action.json cannot be read"}},
	"another transcript": {func(d directory) { d.replace(step1+"transcript.jsonl", "Why", "Who") }, []string{step1 + "transcript.jsonl is missing or not"}},
	"no transcript":      {func(d directory) { d.remove(step1 + "transcript.jsonl") }, []string{step1 + "transcript.jsonl was left out"}},
	"no claim":           {func(d directory) { d.remove(step1 + "step.json") }, []string{step1 + "step.json is missing or not the claim"}},
	"another claim":      {func(d directory) { d.replace(step1+"step.json", `"token": "`, `"token": "x`) }, []string{step1 + "step.json is missing or not the claim"}},
	"no events":          {func(d directory) { d.remove("events.jsonl") }, []string{"events.jsonl is missing, and other files tell of it"}},
	"no status":          {func(d directory) { d.remove("status.json") }, []string{"status.json is missing, and other files tell of it"}},
	"half a status":      {func(d directory) { d.write("status.json", "{") }, []string{"status.json is left out: unexpected end"}},
	"no team":            {func(d directory) { d.replace("session.json", `"config_hash": ""`, `"config_hash": "05678e"`) }, []string{"config.json is missing, and other files tell of it"}},
	"no final answer":    {func(d directory) { d.remove("final") }, []string{"final is missing, and other files tell of it"}},
	"no final text":      {func(d directory) { d.remove(final + "answer.json") }, []string{final + "answer.json is missing or not the answer"}},
	"another final text": {func(d directory) { d.replace(final+"answer.json", "Because", "Since") }, []string{final + "answer.json is missing or not the answer"}},
	"another author":     {func(d directory) { d.replace(final+"answer.json", "agent_a", "agent_b") }, []string{final + "answer.json is missing or not the answer"}},
	"another label":      {func(d directory) { d.replace(final+"answer.json", "agent1.final", "agent2.final") }, []string{final + "answer.json is missing or not the answer"}},
	"no final manifest":  {func(d directory) { d.remove(final + "workspace.json") }, []string{final + "workspace.json is not the manifest"}},
	"a final file":       {func(d directory) { d.write(final+"workspace/x", "x") }, []string{final + "workspace/x is extra"}},
	"two final answers":  {func(d directory) { d.write("final/agent_b/x", "") }, []string{"final has the answers of several agents", "final/agent_b/answer.json is missing"}},
	"a step is lost":     {func(d directory) { d.remove("agents/agent_b/001") }, []string{`agents/agent_b/001/action.json commits "", and the ledger counts "new_answer"`}},
	"another entry":      {func(d directory) { d.replace("ledger/000004.json", `"vote"`, `"stop"`) }, []string{vote + `action.json commits "vote", and the ledger counts "stop"`}},
	"an entry is lost":   {func(d directory) { d.remove("ledger/000003.json") }, []string{"ledger/000003.json does not follow the entries before it"}},
	"an entry is gone":   {func(d directory) { d.write("ledger/000002.json", `{"seq": 5}`) }, []string{"ledger/000002.json does not follow the entries before it: has entry 5 after 1 entries"}},
	"half an entry":      {func(d directory) { d.write("ledger/000003.json", `{`) }, []string{"ledger/000003.json does not follow"}},
	"the last entry":     {func(d directory) { d.remove("ledger/000005.json") }, []string{stop + "action.json has no entry in the ledger, and counts according to events.jsonl"}},
	"the ledger":         {func(d directory) { d.remove("ledger") }, []string{"ledger is missing, and other files tell of it"}},
}

func TestVerify_faults(t *testing.T) {
	t.Parallel()
	stored := newDecided(t).root
	for name, tt := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := directory{t: t, root: t.TempDir()}
			require.NoError(t, copyTree(d.root, stored))
			tt.tamper(d)
			_, found := verified(t, d.root)
			require.Len(t, found, len(tt.want), "%q", found)
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(found[i], want), "%q", found)
			}
		})
	}
}

// A commit that no entry counts is named, unless the session runs. A worker that died after it may have
// left it without documents, and nobody mends it.
func TestVerify_lateCommit(t *testing.T) {
	t.Parallel()
	stored := newDecided(t).root
	for name, tamper := range map[string]func(d directory){
		"after a quorum":       func(d directory) { d.uncount(`{"seq":6,"kind":"ignored","agent":"agent_b","step":2}`) },
		"without its document": func(d directory) { d.uncount(); d.remove(stop + "stop.json") },
		"refused":              func(d directory) { d.uncount(`{"seq":6,"kind":"refused","agent":"agent_b","step":2}`) },
		"failed":               func(d directory) { d.uncount(`{"seq":6,"kind":"failed","agent":"agent_b"}`) },
		"of a running session": func(d directory) { d.uncount(); d.replace("status.json", "consensus", "running") },
		"before a reset": func(d directory) {
			d.uncount()
			d.write("ledger/000005.json", `{"run": "run-2", "seq": 4, "agent": "agent_a", "step": 2, "action": "vote"}`)
		},
		"with another document": func(d directory) { d.uncount(); d.replace(stop+"stop.json", "complete", "blocked") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := directory{t: t, root: t.TempDir()}
			require.NoError(t, copyTree(d.root, stored))
			tamper(d)
			v, found := verified(t, d.root)
			want, late := []string{}, []string{"agents/agent_b/002"}
			switch name {
			case "of a running session":
				late = nil
			case "with another document":
				want = []string{stop + "stop.json is missing or not what action.json commits"}
			}
			require.Equal(t, want, found)
			require.Equal(t, late, v.Uncounted)
		})
	}
}

// The entries of a run that was reset count as well.
func TestVerify_reset(t *testing.T) {
	t.Parallel()
	d := directory{t: t, root: newDecided(t).root}
	d.write("ledger/000006.json", `{"run": "run-2", "seq": 2, "agent": "agent_b", "step": 1, "action": "new_answer"}`)
	d.write("ledger/000007.json", `{"run": "run-2", "seq": 3, "agent": "agent_b", "step": 2, "action": "stop"}`)
	_, found := verified(t, d.root)
	require.Empty(t, found)
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
	v, found := verified(t, d.root)
	require.Empty(t, found)
	require.Equal(t, 3, v.Manifests)
}

// Damage in the store is reported after everything else has been copied.
func TestCopyRun_copiesUndamagedFiles(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	script, notes := bucket{t: t, layout: d.layout}.blob("#!/bin/sh\n"), bucket{t: t, layout: d.layout}.blob("notes")
	for _, name := range []string{"run.sh", "my=20notes.md"} { // a bucket has only blobs
		require.NoError(t, d.store.Delete(t.Context(), d.layout.File(files+name)))
	}
	require.NoError(t, d.store.Delete(t.Context(), script))
	require.NoError(t, d.store.Put(t.Context(), notes, strings.NewReader("potes")))
	dir := t.TempDir()
	summary, err := copyRun(t.Context(), d.store, "s1", dir, false, func(int, int) {})
	require.NoError(t, err)
	require.Equal(t, []problem{
		{Path: files + "my notes.md", Problem: "was left out: content does not match its sha256"},
		{Path: files + "run.sh", Problem: "was left out: open \"" + script + "\": object not found"},
	}, summary.LeftOut)
	require.Equal(t, "consensus", summary.Status)
	require.FileExists(t, filepath.Join(dir, "final/agent_a/answer.json"))
}

// A copy has the transcripts that the commits name: the store may have that of another attempt in the
// place, and an earlier pull may have copied that.
func TestCopyRun_lateTranscript(t *testing.T) {
	t.Parallel()
	d := newDecided(t)
	key := d.layout.File(step1 + "transcript.jsonl")
	committed, err := d.store.Get(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, d.store.Put(t.Context(), key, strings.NewReader(`{"kind":"opening","messages":[]}`)))
	_, found := verified(t, d.root)
	require.Len(t, found, 1, "the store has lost it")
	before := t.TempDir()
	_, err = copyRun(t.Context(), d.store, "s1", before, false, func(int, int) {})
	require.NoError(t, err)

	_, err = artifact.PutBlob(t.Context(), d.store, d.layout, committed)
	require.NoError(t, err)
	_, found = verified(t, d.root)
	require.Empty(t, found)
	again, err := copyRun(t.Context(), d.store, "s1", before, true, func(int, int) {})
	require.NoError(t, err)
	require.Empty(t, again.Verified.Problems)

	require.NoError(t, d.store.Delete(t.Context(), key)) // the worker died before it wrote the file
	_, found = verified(t, d.root)
	require.Empty(t, found)
}

// The answer of a session names files by their paths in the bucket.
func TestVerify_rewrittenPaths(t *testing.T) {
	t.Parallel()
	d := directory{t: t, root: newDecided(t).root}
	for _, name := range []string{step1 + "action.json", step1 + "answer.json", final + "answer.json"} {
		d.replace(name, "Because", "See /workspace/run.sh and peers/agent2/x. Because")
	}
	_, found := verified(t, d.root)
	require.Equal(t, []string{step1 + "answer.json is missing or not what action.json commits"}, found)
	for _, name := range []string{step1 + "answer.json", final + "answer.json"} {
		d.replace(name, "See /workspace/run.sh", "See run.sh")
	}
	_, found = verified(t, d.root)
	require.Empty(t, found)
}

// The records of an agent are found whatever its name is, and files are none whatever theirs are.
func TestStepFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"agents/workspace/001/action.json": "action.json", "agents/a/001/evaluator/002/action.json": "evaluator/002/action.json",
		"agents/a/001/workspace/action.json": "", "agents/a/001/partial/workspace.json": "", "agents/a/last_action.json": "", "final/a/workspace.json": "",
	} {
		require.Equal(t, want, (&copier{run: record.Sessions.At(nil, "s1")}).stepFile(name), name)
	}
	for name, want := range map[string]string{
		"step-01/launch-2/workspace.json": "workspace.json", "step-01/evidence/action.json": "", "step-01/attempt-2/evidence/action.json": "",
	} {
		require.Equal(t, want, (&copier{run: record.Scenarios.At(nil, "buy/r1")}).stepFile(name), name)
	}
}
