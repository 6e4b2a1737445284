package start

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// The documents as read by a program that knows only the layout of the seed.
type (
	seedAnswer struct {
		AgentID   string `json:"agent_id"`
		Answer    string `json:"answer"`
		Timestamp string `json:"timestamp"`
	}
	seedVote struct {
		Voter     string         `json:"voter"`
		Target    string         `json:"target"`
		Reason    string         `json:"reason"`
		SeenSteps map[string]int `json:"seen_steps"`
	}
	seedAction struct {
		AgentID       string          `json:"agent_id"`
		Action        string          `json:"action"`
		AnswerText    *string         `json:"answer_text"`
		VoteTarget    *string         `json:"vote_target"`
		StepNumber    int             `json:"step_number"`
		Cost          map[string]any  `json:"cost"`
		WorkspacePath *string         `json:"workspace_path"`
		Error         *artifact.Error `json:"error"`
	}
)

// The worked session of the seed: all answer; two vote for agent_b while
// agent_c answers again, which makes both votes stale; all vote for agent_c.
func TestStep_lifecycle(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{
		"agent_a": {writes("plan.md", "# Plan\n"), answers("Answer A."), votes("agent2"), votes("agent3")},
		"agent_b": {answers("Answer B."), votes("agent2.1"), votes("agent3.2")},
		"agent_c": {answers("Answer C."), answers("Answer C, improved, and longer."), votes("agent3")},
	})
	files := map[string]string{}
	for _, id := range []string{"agent_a", "agent_b", "agent_c"} {
		files[id] = s.agent(m, id, "")
	}
	// The agents of the first round begin before any answer.
	for _, id := range []string{"agent_a", "agent_b", "agent_c"} {
		require.NoError(t, os.MkdirAll("first/"+id, 0o755))
		line := []string{"step", "--automation", "--session-dir", "first/" + id, "--config", files[id], "Which of us is right?"}
		code, _, stderr := s.Run(line...)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.NoError(t, os.MkdirAll("d/agents", 0o755))
		require.NoError(t, os.Rename("first/"+id+"/agents/"+id, "d/agents/"+id))
	}
	system := m.system("agent_a")
	check := func(code int) checkReport {
		got, stdout, _ := s.checks("d", "")
		require.Equal(t, code, got)
		return parseCheck(t, stdout)
	}
	require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, check(cli.ExitNoAnswer).Next)

	for _, id := range []string{"agent_a", "agent_b", "agent_c"} {
		code, _, _ := s.steps(files[id])
		require.Equal(t, cli.ExitOK, code)
	}
	for _, label := range []string{"agent1.1", "agent2.1", "agent3.1", "Answer A.", "Answer B.", "Answer C."} {
		require.Contains(t, m.prompt("agent_c"), label, "all answers are shown, the agent's own like the others")
	}
	for _, id := range []string{"agent_a", "agent_b", "agent_c"} {
		require.Equal(t, system, m.system(id), "the first agent, which is alone in the directory, has the prompt of a team's member")
	}
	require.NotContains(t, m.prompt("agent_c"), "agent_a")
	require.NotContains(t, m.prompt("agent_c"), "It is right.", "votes are not shown")
	require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, check(cli.ExitNoAnswer).Next, "both votes are stale")

	for round, id := range []string{"agent_a", "agent_b", "agent_c"} {
		code, last, _ := s.steps(files[id])
		require.Equal(t, cli.ExitOK, code)
		require.Equal(t, 3, last.StepNumber, round)
	}
	report := check(cli.ExitOK)
	require.Empty(t, report.Next)
	require.Equal(t, "agent_c", report.Consensus.Winner)
	require.Equal(t, "agent3.2", report.Consensus.WinnerLabel)

	var a seedAnswer
	s.read("agents/agent_c/002/answer.json", &a)
	require.Equal(t, "agent_c", a.AgentID)
	require.Equal(t, "Answer C, improved, and longer.", a.Answer)
	require.True(t, strings.HasSuffix(a.Timestamp, "Z"))
	var v seedVote
	s.read("agents/agent_b/002/vote.json", &v)
	require.Equal(t, seedVote{"agent_b", "agent_b", "It is right.", map[string]int{"agent_a": 1, "agent_b": 1, "agent_c": 1}}, v)
	s.read("agents/agent_b/003/vote.json", &v)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 1, "agent_c": 2}, v.SeenSteps)
	var l seedAction
	s.read("agents/agent_b/last_action.json", &l)
	require.Equal(t, "vote", l.Action)
	require.Equal(t, "agent_c", *l.VoteTarget)
	require.Nil(t, l.AnswerText)
	require.Nil(t, l.Error)
	require.EqualValues(t, 100, l.Cost["input_tokens"])
	require.EqualValues(t, 1, l.Cost["model_calls"])
	require.FileExists(t, "d/agents/agent_a/001/workspace/plan.md")
	require.NoDirExists(t, "d/final")
	var claim artifact.Claim
	s.read("agents/agent_b/002/step.json", &claim)
	require.Equal(t, "Which of us is right?", claim.Query, "the page of the directory shows it")
	s.StartedNothing()
}

// Exit code 1: wrong usage, and nothing was started.
func TestStep_usage(t *testing.T) {
	s := newStepShell(t)
	s.File("one.yaml", "agent: {id: agent_a, backend: {type: offline}}")
	s.File("two.yaml", "agents: [{id: a, backend: {type: offline}}, {id: b, backend: {type: offline}}]")
	s.File("keyless.yaml", "agent: {backend: {model: m, base_url: 'http://127.0.0.1:1/v1', api_key_env: SOME_API_KEY}}")
	s.File("provider.yaml", "agent: {backend: {model: m, provider: nobody}}")
	s.File("server.yaml", "agent: {backend: {model: m, base_url: 'http://127.0.0.1:1/v1'}, mcp_servers: [nobody]}")
	s.File("broken.json", "{")
	for _, tt := range []struct {
		line []string
		says string
	}{
		{[]string{"--config", "one.yaml", "q"}, "--session-dir DIR"},
		{[]string{"--session-dir", "d", "--config", "one.yaml"}, "step needs QUERY"},
		{[]string{"--session-dir", "d", "--config", "one.yaml", " "}, "the query is empty"},
		{[]string{"--session-dir", "d", "--config", "one.yaml", "caf\xe9"}, "not UTF-8"},
		{[]string{"--session-dir", "d", "q"}, "exactly one agent; name its file with --config FILE"},
		{[]string{"--session-dir", "d", "--config", "two.yaml", "q"}, "a step has exactly one"},
		{[]string{"--session-dir", "d", "--config", "nowhere.yaml", "q"}, "nowhere.yaml"},
		{[]string{"--session-dir", "d", "--config", "keyless.yaml", "q"}, "SOME_API_KEY is not set; it holds the API key of the agent"},
		{[]string{"--session-dir", "d", "--config", "provider.yaml", "q"}, `no provider "nobody"`},
		{[]string{"--session-dir", "d", "--config", "server.yaml", "q"}, `no MCP server "nobody"`},
		{[]string{"--session-dir", "d", "--config", "one.yaml", "--eval-criteria", "broken.json", "q"}, "broken.json"},
		{[]string{"--session-dir", "one.yaml", "--config", "one.yaml", "q"}, "one.yaml"},
		{[]string{"--session-dir", "", "--config", "one.yaml", "q"}, "--session-dir is given but empty"},
		{[]string{"--check", "--session-dir", "d", "q"}, "takes no arguments, got 1 argument"},
		{[]string{"--check"}, "--session-dir DIR"},
		{[]string{"--check", "--session-dir", "nowhere"}, "there is no session directory nowhere"},
	} {
		code, stdout, stderr := s.Run(append([]string{"step"}, tt.line...)...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", tt.line, stderr)
		require.Empty(t, stdout, "%v", tt.line)
		require.Contains(t, stderr, tt.says, "%v", tt.line)
		require.NoDirExists(t, "d")
	}
}

// An agent without an ID gets the next free one, also concurrently.
func TestStep_withoutID(t *testing.T) {
	s := newStepShell(t)
	s.File("agent.yaml", "agent: {backend: {model: m}}")
	s.step("d/agents/agent_a/001/answer.json", `{"answer": "A"}`)
	codes := make(chan int)
	for range 3 {
		go func() {
			code, _, _ := s.Run("step", "--offline", "--session-dir", "d", "--config", "agent.yaml", "Why?")
			codes <- code
		}()
	}
	for range 3 {
		require.Equal(t, cli.ExitOK, <-codes)
	}
	for _, id := range []string{"agent_b", "agent_c", "agent_d"} {
		require.FileExists(t, "d/agents/"+id+"/001/action.json")
	}
	require.NoFileExists(t, "d/agents/agent_a/002/action.json")
}

// The output for people, and that for programs.
func TestStep_output(t *testing.T) {
	s := newStepShell(t)
	s.File("agent.yaml", "agent: {id: agent_q, backend: {model: m}}")
	code, stdout, stderr := s.Run("step", "--offline", "--session-dir", "d", "--config", "agent.yaml", "Why?")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "Offline model")
	require.NotContains(t, stdout, "{")
	require.Contains(t, stderr, "agent_q begins a step")
	require.Contains(t, stderr, teams.OfflineNote)
	code, stdout, stderr = s.Run("step", "--offline", "--automation", "--session-dir", "d", "--config", "agent.yaml", "Why?")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, teams.OfflineNote+"\n", stderr)
	require.Len(t, strings.Split(strings.TrimSpace(stdout), "\n"), 1)
	file, err := os.ReadFile("d/agents/agent_q/last_action.json")
	require.NoError(t, err)
	require.JSONEq(t, string(file), stdout)
	code, stdout, _ = s.Run("step", "--check", "--next", "--session-dir", "d")
	require.Equal(t, cli.ExitOK, code, "one agent alone decides")
	require.Empty(t, stdout)
}

// A step that cannot share a server of scope session says so.
func TestStep_sharesNoServers(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, nil)
	s.File("agent.yaml", fmt.Sprintf("agent: {id: agent_q, backend: {model: m, base_url: %q}, "+
		"mcp_servers: [{name: browser, command: 'false', scope: session}, {name: notes, command: 'false', scope: step}]}", m.URL+"/v1"))
	line := []string{"step", "--session-dir", "d", "--config", "agent.yaml", "Why?"}
	code, _, stderr := s.Run(line...)
	require.Equal(t, cli.ExitNoAnswer, code, "no server starts: %s", stderr)
	require.Contains(t, stderr, "scope: session of browser counts as scope: step")
	_, _, stderr = s.Run(append(line, "--automation")...)
	require.NotContains(t, stderr, "scope: session")
	_, _, stderr = s.Run(append(line, "--offline")...)
	require.NotContains(t, stderr, "scope: session", "the built-in model has no servers")
}

// The files of an answer keep their content and mode, and its text names their final
// paths.
func TestStep_files(t *testing.T) {
	s := newStepShell(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var text string
	m := newScripted(t, nil)
	m.script = map[string][]said{
		"agent_b": {writes("notes.md", "notes"), answers("B: see notes.md")},
		"agent_a": {writes("site/index.html", "<p>"), writes("run.sh", "#!/bin/sh\n").while(func(*http.Request) {
			work := working(temporary)
			text = fmt.Sprintf("See %[1]s/site/index.html, file://%[1]s/run.sh, %[1]s/peers/agent2/notes.md, peers/agent2/notes.md, "+
				"/workspace/site, /workspace/other and /tmp/conclave-worker-9/conclave-step-12/files/site; %[1]s.", work)
			m.script["agent_a"][2].arguments["content"] = text
			_ = os.Symlink("site/index.html", filepath.Join(work, "link"))
			_ = os.Symlink("/etc/passwd", filepath.Join(work, "outside"))
			_ = os.WriteFile(filepath.Join(work, "tool"), []byte("x"), 0o600)
			_ = os.Chmod(filepath.Join(work, "tool"), 0o755)
		}), answers(""), answers("")},
	}
	m.script["agent_a"][3].arguments = m.script["agent_a"][2].arguments
	code, _, _ := s.steps(s.agent(m, "agent_b", ""))
	require.Equal(t, cli.ExitOK, code)
	code, last, stderr := s.steps(s.agent(m, "agent_a", ""))
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, `"outside" was left out`)

	ws := filepath.Join(s.Home, "d/agents/agent_a/001/workspace")
	b := filepath.Join(s.Home, "d/agents/agent_b/001/workspace")
	want := fmt.Sprintf("See %[1]s/site/index.html, file://%[1]s/run.sh, %[2]s/notes.md, %[2]s/notes.md, "+
		"%[1]s/site, /workspace/other and %[1]s/site; %[1]s.", ws, b)
	require.Equal(t, want, *last.AnswerText)
	require.Equal(t, ws, *last.WorkspacePath)
	var a seedAnswer
	s.read("agents/agent_a/001/answer.json", &a)
	require.Equal(t, want, a.Answer)
	info, err := os.Stat(filepath.Join(ws, "tool"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	target, err := os.Readlink(filepath.Join(ws, "link"))
	require.NoError(t, err)
	require.Equal(t, "site/index.html", target)
	require.NoFileExists(t, filepath.Join(ws, "outside"))
	require.NoDirExists(t, filepath.Join(ws, "peers"))

	// The next agent reads all of them below peers/.
	m.script["agent_c"] = []said{votes("agent1")}
	code, _, _ = s.steps(s.agent(m, "agent_c", ""))
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, m.prompt("agent_c"), "See peers/agent1/site/index.html, file://peers/agent1/run.sh, peers/agent2/notes.md, "+
		"peers/agent2/notes.md, peers/agent1/site, /workspace/other and peers/agent1/site; peers/agent1.")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left in the temporary directory")
}

// A directory of another program is continued, and stays readable for it.
func TestStep_directoryOfAnotherProgram(t *testing.T) {
	s := newStepShell(t)
	source, err := filepath.Abs(filepath.Join(repository(t), "engine/session/directory/testdata/massgen"))
	require.NoError(t, err)
	require.NoError(t, os.CopyFS("d", os.DirFS(source)))
	before := hashes(t, "d")
	m := newScripted(t, map[string][]said{"agent_a": {votes("agent3")}})
	code, last, stderr := s.steps(s.agent(m, "agent_a", ""))
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 3, last.StepNumber)
	require.Contains(t, m.prompt("agent_a"), "agent3.2")
	var v seedVote
	s.read("agents/agent_a/003/vote.json", &v)
	require.Equal(t, "agent_c", v.Target)
	after := hashes(t, "d")
	for name, hash := range before {
		if name != "agents/agent_a/last_action.json" {
			require.Equal(t, hash, after[name], "%s is overwritten", name)
		}
	}
}

// Foreign files in the directory are reported, and links are not followed.
func TestStep_hostileDirectory(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("Mine.")}})
	file := s.agent(m, "agent_a", "")
	require.NoError(t, os.MkdirAll("elsewhere", 0o755))
	s.step("d/agents/agent_b/001/answer.json", `{"answer": "The older one."}`)
	s.step("d/agents/agent_b/002/answer.json", `{"answer": "torn`)
	code, _, stderr := s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stderr, "agents/agent_b/002/answer.json: is not valid JSON")
	require.Contains(t, m.prompt("agent_a"), "The older one.")

	require.NoError(t, os.RemoveAll("d"))
	require.NoError(t, os.MkdirAll("d/agents", 0o755))
	require.NoError(t, os.Symlink("../../elsewhere", "d/agents/agent_a"))
	code, _, stderr = s.steps(file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "agents/agent_a is a symbolic link")
	require.NoError(t, os.Remove("d/agents/agent_a"))
	for _, name := range []string{".conclave-locks", "blobs", "journal", ".conclave-tmp"} {
		require.NoError(t, os.RemoveAll("d/"+name))
		require.NoError(t, os.Symlink("../elsewhere", "d/"+name))
		code, _, _ = s.steps(file)
		require.NotEqual(t, cli.ExitOK, code, name)
		require.NoError(t, os.Remove("d/"+name))
	}
	s.File("d/"+"eval_criteria.json", "torn")
	code, _, stderr = s.steps(file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "eval_criteria.json")
	left, err := os.ReadDir("elsewhere")
	require.NoError(t, err)
	require.Empty(t, left)
}

// The first criteria become those of the directory.
func TestStep_criteria(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("One."), votes("agent1"), votes("agent1")}})
	file := s.agent(m, "agent_a", "")
	s.File("given.json", `[{"text": "Names its sources."}]`)
	s.File("other.json", `{"criteria": [{"text": "Is short."}]}`)
	for _, tt := range []struct {
		more        []string
		tells, says string
	}{
		{[]string{"--eval-criteria", "given.json"}, "Names its sources.", ""},
		{nil, "Names its sources.", ""},
		{[]string{"--eval-criteria", "other.json"}, "Is short.", "has other criteria"},
	} {
		code, _, stderr := s.steps(file, tt.more...)
		require.Equal(t, cli.ExitOK, code)
		require.Contains(t, m.prompt("agent_a"), tt.tells)
		require.Contains(t, stderr, tt.says)
	}
	data, err := os.ReadFile("d/eval_criteria.json")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text": "Names its sources."}]`, string(data))
}

// A step by hand uses a preset, and says which keys only sessions have.
func TestStep_preset(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("One.")}})
	file := s.agent(m, "agent_a", "orchestrator: {coordination: {criteria_preset: code, persona_generator: {enabled: true}}}")
	code, _, stderr := s.steps(file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, m.prompt("agent_a"), "Tests fail when the behaviour breaks.")
	require.Contains(t, stderr, "orchestrator.coordination.persona_generator has no effect in a step by hand")
}

// history.json of the directory has the earlier turns.
func TestStep_history(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("Two."), votes("agent1")}})
	file := s.agent(m, "agent_a", "")
	require.NoError(t, os.Mkdir("d", 0o755))
	s.File("d/history.json", `{}`)
	code, _, stderr := s.steps(file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "history.json is not a list")
	s.File("d/history.json", `[{"query":"How many moons has the Earth?","answer":"One."}]`)
	for range 2 {
		code, _, stderr = s.steps(file)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Contains(t, m.prompt("agent_a"), "How many moons has the Earth?")
	}
}

// hashes are the files below a directory with their content.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			data, readErr := os.ReadFile(name)
			rel, _ := filepath.Rel(dir, name)
			found[filepath.ToSlash(rel)], err = string(data), readErr
		}
		return err
	}))
	return maps.Clone(found)
}

// repository is the root of the sources.
func repository(t *testing.T) string {
	t.Helper()
	return sources
}

var sources = func() string {
	dir, _ := os.Getwd() // before any test has moved
	return filepath.Join(dir, "../../../..")
}()

// The share of the peers' answers in the prompt is bounded by the model's window.
func TestStep_modelWindow(t *testing.T) {
	s := newStepShell(t)
	s.File("one.yaml", "agent: {id: agent_b, backend: {type: offline}}")
	long, err := json.Marshal(strings.Repeat("Two is one and one.\n", 180) + "The end.")
	require.NoError(t, err)
	s.step("d/agents/agent_a/001/answer.json", fmt.Sprintf(`{"agent_id": "agent_a", "answer": %s, "timestamp": "2026-11-21T10:00:00Z"}`, long))
	for window, whole := range map[int]bool{0: true, 4096: false} {
		c := &cli.CLI{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Config: "one.yaml"}
		o, err := newStepOrder(c, stepFlags{dir: "d", offline: true}, "Which of us is right?")
		require.NoError(t, err)
		opened, err := newStepRunner(c, o)
		require.NoError(t, err)
		t.Cleanup(opened.close)
		opened.ports.Window = window
		l, err := opened.prepareStep(t.Context())
		require.NoError(t, err)
		_, err = step.Run(t.Context(), opened.ports, l.spec)
		require.NoError(t, err)
		t.Cleanup(l.lock.Remove)
		found, err := filepath.Glob("d/agents/agent_b/*/transcript.jsonl")
		require.NoError(t, err)
		transcript, err := os.ReadFile(found[len(found)-1])
		require.NoError(t, err)
		require.Equal(t, whole, strings.Contains(string(transcript), "The end."), "window %d", window)
		require.NoError(t, os.RemoveAll("d/agents/agent_b"))
	}
}
