//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

// says is a reply without a tool call.
func says(text string) reply {
	data, _ := json.Marshal(map[string]any{ // text always can be written
		"id": "r", "object": "chat.completion",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
	return reply{body: string(data)}
}

func calls(step string) reply {
	return reply{tool: "call_step", arguments: map[string]any{"step_name": step}}
}

func jumps(step string) reply {
	return reply{tool: "jump_to_step", arguments: map[string]any{"step_name": step}}
}

// pipeline is a pipeline file with a graph in YAML. Its agents agent_a and agent_b use model-a and
// model-b of this server.
func (m *modelServer) pipeline(graph string) string {
	m.t.Helper()
	var b strings.Builder
	b.WriteString("agents:\n")
	for _, x := range []string{"a", "b"} {
		b.WriteString("  - {id: agent_" + x + ", backend: {model: model-" + x + ", base_url: '" + m.URL + "/v1'}, tools: {files: true}}\n")
	}
	return b.String() + graph
}

// called is a graph in which main calls lint, a step without a model.
const called = `start: main
on_step_failure: park
steps:
  - {name: main, agent: agent_a, prompt: You write., destinations: [lint, export], next: export}
  - {name: lint, kind: tools, calls: [{tool: read_file, args: {path: draft.md}}]}
  - {name: export, agent: agent_b, history: true}
`

// endOf returns the result of an --automation run.
func endOf(t *testing.T, o output) acts.Result {
	t.Helper()
	var r acts.Result
	o.lastLine(t, &r)
	return r
}

func traced(r acts.Result) string {
	var all []string
	for _, g := range r.Trace {
		all = append(all, g.Step+"/"+string(g.Status))
	}
	return strings.Join(all, " ")
}

// example is a file of the repository's examples.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../../examples/pipelines", name))
	require.NoError(t, err)
	return path
}

// confined skips a test on a host that cannot confine commands.
func confined(t *testing.T, o output) {
	t.Helper()
	if o.code == 1 && strings.Contains(o.stderr, "no shell") {
		t.Skip("commands cannot be confined here: " + o.stderr)
	}
}

// main → lint (call) → export, with a real linter, and no model.
func TestPipelineExampleLint(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	out := c.conclave("pipeline", "run", "--offline", "--automation", "--id", "lint", example(t, "lint.yaml"), "A program that greets the world")
	confined(t, out)
	require.Equal(t, 0, out.code)
	r := endOf(t, out)
	require.Equal(t, pipeline.Completed, r.Status)
	require.Equal(t, "draft/completed main/call_pending lint/completed main/completed export/completed", traced(r))
	require.Equal(t, pipeline.Jump, r.Trace[3].Action)
	if strings.Contains(r.Trace[2].Text, "there is no go in") {
		t.Skip("commands do not see Go here: " + r.Trace[2].Text)
	}
	require.Contains(t, r.Trace[2].Text, "greet.go: no problems")
	require.Contains(t, r.Final, "dist/greet.tar.gz:\ngreet.go")
	require.Contains(t, out.stdout, "main called lint")
	require.Contains(t, out.stderr, "offline")

	for _, line := range []string{"main called lint", "main continues after lint", "main jumped to export", "ended: completed"} {
		require.Regexp(t, `(?m)^\d+:\d\d `+line+`$`, out.stdout)
	}
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "lint", dir).code)
	for _, file := range []string{
		"pipeline.json", "config.json", "status.json", "result.json", "events.jsonl",
		"steps/002-main/action.json", "steps/002-main/transcript.jsonl", "steps/003-lint/answer.json", "steps/005-export/last_action.json",
	} {
		require.FileExists(t, filepath.Join(dir, file))
	}
	require.FileExists(t, filepath.Join(dir, "steps/005-export/workspace/dist/greet.tar.gz"))
	var status acts.State
	readFile(t, filepath.Join(dir, "status.json"), &status)
	require.Equal(t, r.Trace, status.Trace, "the trace is whole, piece by piece")

	// The real linter finds a mistake that compiles. Without a linter, the error names the missing
	// program.
	text, err := os.ReadFile(example(t, "lint.yaml"))
	require.NoError(t, err)
	linted := func(old, changed string) string {
		file := strings.Replace(string(text), old, changed, 1)
		require.NotEqual(t, string(text), file)
		return endOf(t, c.conclave("pipeline", "run", "--offline", "--automation", c.file("changed.yaml", file), "A program")).Trace[2].Text
	}
	found := linted("Hello, %s", "Hello, %d")
	require.Contains(t, found, "exit code 1")
	require.Contains(t, found, "format %d has arg name of wrong type string")
	require.NotContains(t, found, "no problems")
	missing := linted("command -v go", "command -v no-such-go")
	require.Contains(t, missing, "exit code 127")
	require.Contains(t, missing, "there is no go in /usr/local/go/bin:")
}

func TestPipelineExampleDecide(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	out := c.conclave("pipeline", "run", "--offline", "--json", "--id", "decide", example(t, "decide.yaml"), "Tabs or spaces?")
	require.Equal(t, 0, out.code)
	var r acts.Result
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &r))
	require.Equal(t, "brief/completed decide/completed minutes/completed", traced(r))
	require.Greater(t, r.Trace[1].Usage.ModelCalls, int64(3), "the team's usage")
	require.Contains(t, r.Final, "Tabs or spaces?")
	require.Contains(t, out.stderr, "decide begins")
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "decide", dir).code)
	require.FileExists(t, filepath.Join(dir, "steps/003-minutes/workspace/answer.md"), "the team's files are those of the run")

	require.Contains(t, c.conclave("list", "--json", "--kind", "pipeline_step").stdout, `"decide-decide-l2"`, "the team's session is one of its own")
	require.NotContains(t, c.conclave("list", "--json", "--all").stdout, `"decide"`)
	require.Contains(t, c.conclave("pipeline", "list", "--json").stdout, `"decide"`)
	require.Contains(t, c.conclave("status", "decide").stdout, "2 transitions")
	require.Contains(t, c.conclave("transcript", "decide", "minutes", "last").stdout, "minutes · step 003")
	require.Contains(t, c.conclave("transcript", "decide", "minutes", "1").stderr, "brief 001, decide 002, minutes 003")
	require.Contains(t, c.conclave("result", "decide").stdout, "Tabs or spaces?")
	require.Equal(t, 1, c.conclave("finish", "decide").code)
	require.Contains(t, c.conclave("pause", "decide").stderr, "has ended already (completed)")
}

// A user has only the Temporal CLI.
func TestPipelineStockClient(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dev := c.start("dev", "--offline")
	at := address(t, dev)
	begin := func(id, input string) {
		require.Equal(t, 0, c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Pipeline", "--workflow-id", id, "--input", input).code)
	}
	begin("stock", `{"request":"Does it do?","config":{"start":"main","agents":[{"id":"a","backend":{"type":"offline"}}],"steps":[
		{"name":"main","prompt":"offline: call lint","destinations":["lint"]},{"name":"lint","kind":"tools","calls":[{"tool":"list_files"}]}]}}`)
	out := c.temporal("workflow", "result", "--address", at, "--workflow-id", "stock", "--output", "json")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, `"completed"`)
	out = c.temporal("workflow", "query", "--address", at, "--workflow-id", "stock", "--type", "state", "--output", "json")
	var answered struct {
		QueryResult []acts.State `json:"queryResult"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &answered), out.stdout)
	require.Len(t, answered.QueryResult[0].Trace, 3)
	require.Contains(t, c.temporal("workflow", "query", "--address", at, "--workflow-id", "stock", "--type", "timeline").stdout, "main called lint")
	require.Contains(t, c.temporal("workflow", "describe", "--address", at, "--workflow-id", "stock").stdout, "completed", "the memo tells the status")
	require.Contains(t, c.temporal("workflow", "metadata", "--address", at, "--workflow-id", "stock").stdout, "| 2 | lint | completed |", "the current details are the trace")

	for name, config := range map[string]string{
		"nowhere":  `{"start":"man","agents":[{"id":"a","backend":{"type":"offline"}}],"steps":[{"name":"main"}]}`,
		"base_url": `{"start":"main","agents":[{"id":"a","backend":{"model":"m","base_url":"http://127.0.0.1:1/v1"}}],"steps":[{"name":"main"}]}`,
		"inside":   `{"start":"main","steps":[{"name":"main","kind":"session","config":{"agents":[{"id":"a","backend":{"model":"m","base_url":"http://127.0.0.1:1/v1"}}]}}]}`,
	} {
		begin("refused-"+name, `{"request":"q","config":`+config+`}`)
		out := c.temporal("workflow", "result", "--address", at, "--workflow-id", "refused-"+name)
		require.NotEqual(t, 0, out.code, name)
		require.Contains(t, out.stdout+out.stderr, "Failure", name)
		require.Equal(t, 1, c.conclave("result", "refused-"+name).code)
	}
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}

// pause, say, resume, retry: the running step is suspended without loss, and receives the message.
func TestPipelinePeople(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(says("Lost."))
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("draft.md", "a frog"), lost, fails(401), calls("lint"), says("Written.")},
		"model-b": {says("Exported.")},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	run := c.start("pipeline", "run", "--automation", "--id", "people", c.file("p.yaml", model.pipeline(called)), "A haiku")
	<-asked
	require.Equal(t, 0, c.conclave("pause", "people").code)
	run.prints(t, "paused by a person")
	run.prints(t, "main was suspended")
	var state acts.State
	require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--json", "people").stdout), &state))
	require.True(t, state.Paused)
	require.Equal(t, "main", state.Step)
	require.Equal(t, 1, c.conclave("say", "people", "x", "--agent", "agent_a").code)
	require.Equal(t, 0, c.conclave("say", "people", "About a toad, please.").code)
	require.Equal(t, 1, c.conclave("retry", "people").code, "nothing has failed")
	require.Equal(t, 0, c.conclave("resume", "people").code)

	require.Equal(t, 2, run.ends(t), "no command watches")
	run.prints(t, "parked:")
	run.prints(t, `"status":"parked"`)
	run.prints(t, `"model_calls":1`)
	run.prints(t, `"step":"main","status":"error"`)
	require.Contains(t, c.conclave("status", "people").stdout, "conclave retry people")
	require.Equal(t, 1, c.conclave("resume", "people").code)
	require.Equal(t, 0, c.conclave("retry", "people").code)
	watch := c.conclave("watch", "people", "--automation")
	require.Equal(t, 0, watch.code)
	var r acts.Result
	watch.lastLine(t, &r)
	require.Equal(t, "main/error main/call_pending lint/completed main/completed export/completed", traced(r))
	require.Equal(t, "Exported.", r.Final)
	require.Contains(t, model.request("model-a", 3), "a frog", "the work before the pause is kept")
	require.Contains(t, model.request("model-a", 4), "About a toad")
	require.Contains(t, model.request("model-b", 1), "About a toad", "later steps read the message")
	require.Equal(t, 5, model.calls("model-a"))
}

func TestPipelineCancel(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(says("Lost."))
	model := newModelServer(t, map[string][]reply{"model-a": {calls("deep")}, "model-b": {lost}})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	run := c.start("pipeline", "run", "--automation", "--id", "cancelled", c.file("p.yaml", model.pipeline(`start: main
steps:
  - {name: main, agent: agent_a, destinations: [deep]}
  - {name: deep, agent: agent_b}
`)), "A haiku")
	<-asked
	require.Equal(t, 0, c.conclave("cancel", "cancelled").code)
	require.Equal(t, 2, run.ends(t))
	var r acts.Result
	output{stdout: strings.Split(run.log.String(), "conclave: ")[0]}.lastLine(t, &r)
	require.Equal(t, pipeline.Cancelled, r.Status)
	require.Equal(t, "main/call_pending deep/cancelled", traced(r))
	require.Equal(t, 2, c.conclave("result", "cancelled").code)
	var state acts.State
	require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--json", "cancelled").stdout), &state))
	require.Equal(t, []string{"main"}, state.Stack, "who waited is on record")
}

// Ctrl-C loses no work and prints the command that follows the run.
func TestPipelineInterrupt(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(says("Lost."))
	model := newModelServer(t, map[string][]reply{"model-a": {lost, says("Written.")}, "model-b": {says("Exported.")}})
	c := newCLI(t)
	run := c.start("pipeline", "run", "--automation", "--id", "stopped", c.file("p.yaml", model.pipeline(called)), "A haiku")
	<-asked
	require.NoError(t, run.Process.Signal(syscall.SIGINT))
	require.Equal(t, 4, run.ends(t))
	require.Contains(t, run.log.String(), "conclave watch stopped")
	require.Contains(t, run.log.String(), `"status":"running"`)
	close(hold)
	c.gone()
	require.Equal(t, 2, c.conclave("result", "stopped").code, "it has not ended")
	out := c.conclave("watch", "stopped")
	require.Equal(t, 0, out.code)
	require.Equal(t, "Exported.\n", out.stdout)
}

// A worker is killed with -9 in every kind of step: the run continues, no finished step runs again,
// and a caller keeps its messages.
func TestPipelineKilledWorker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		graph  string
		script map[string][]reply
		lost   string // model whose last scripted reply but one is lost
		trace  string
	}{
		"agent": {
			graph: called, lost: "model-a",
			script: map[string][]reply{
				"model-a": {write("draft.md", "a frog"), calls("lint"), says("Lost."), says("Written.")}, "model-b": {says("Exported.")},
			},
			trace: "main/call_pending lint/completed main/completed export/completed",
		},
		"called": {
			lost: "model-b", graph: `start: main
steps:
  - {name: main, agent: agent_a, destinations: [deep]}
  - {name: deep, agent: agent_b}
`,
			script: map[string][]reply{
				"model-a": {write("draft.md", "a frog"), calls("deep"), says("Written.")}, "model-b": {says("Lost."), says("Deep.")},
			},
			trace: "main/call_pending deep/completed main/completed",
		},
		"session": {
			lost: "model-b", graph: `start: main
steps:
  - {name: main, agent: agent_a, destinations: [decide]}
  - {name: decide, kind: session, config: {agents: [{id: agent_b, backend: {model: model-b, base_url: 'URL/v1'}}], orchestrator: {final_answer_strategy: winner_reuse}}}
`,
			script: map[string][]reply{
				"model-a": {write("draft.md", "a frog"), calls("decide"), says("Written.")},
				"model-b": {answer("B."), vote("agent1", "Lost."), vote("agent1", "Mine.")},
			},
			trace: "main/call_pending decide/completed main/completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, hold := make(chan struct{}), make(chan struct{})
			script := tt.script[tt.lost]
			script[len(script)-2] = script[len(script)-2].during(func() { close(asked); <-hold })
			model := newModelServer(t, tt.script)
			t.Cleanup(func() { close(hold) })
			c := newCLI(t)
			file := c.file("p.yaml", strings.ReplaceAll(model.pipeline(tt.graph), "URL", model.URL))
			run := c.start("pipeline", "run", "--automation", "--id", "killed", file, "A haiku")
			<-asked
			require.NoError(t, run.Process.Signal(syscall.SIGKILL))
			run.ends(t)
			out := c.conclave("watch", "--automation", "killed")
			require.Equal(t, 0, out.code)
			require.Equal(t, tt.trace, traced(endOf(t, out)))
			for name, replies := range tt.script {
				require.Equal(t, len(replies), model.calls(name), name+": one call is paid for twice, and no finished step runs again")
			}
			dir := filepath.Join(c.home, "pulled")
			require.Equal(t, 0, c.conclave("pull", "--verify", "killed", dir).code)
			restored(t, model, dir)
			require.Equal(t, "draft.md\n", c.conclave("diff", "--name-only", "killed").stdout)
		})
	}
}

// restored requires that agent_a's first model call after its call of a step has the messages of
// the previous one, its own reply with the result, and one note.
func restored(t *testing.T, model *modelServer, dir string) {
	t.Helper()
	messages := func(n int) []json.RawMessage {
		var request struct {
			Messages []json.RawMessage `json:"messages"`
		}
		require.NoError(t, json.Unmarshal([]byte(model.request("model-a", n)), &request))
		return request.Messages
	}
	before, after := messages(2), messages(3) // the second one was replied to with call_step
	require.Len(t, after, len(before)+3)
	for i, m := range before {
		require.Equal(t, string(m), string(after[i]), "byte for byte")
	}
	var note struct{ Role, Content string }
	require.NoError(t, json.Unmarshal(after[len(after)-1], &note))
	var last artifact.Commit
	data, err := filepath.Glob(filepath.Join(dir, "steps/002-*/action.json"))
	require.NoError(t, err)
	readFile(t, data[0], &last)
	var p struct{ Text string }
	require.NoError(t, json.Unmarshal(last.Payload, &p))
	require.Equal(t, string(llm.User), note.Role)
	require.Equal(t, "[Called step completed with result: "+p.Text+"]", note.Content)
}

// A killed step without a model repeats at most one command and keeps its files.
func TestPipelineKilledTools(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := c.file("p.yaml", `start: draft
agents: [{id: a, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: draft, kind: tools, calls: [{tool: write_file, args: {path: log, content: "0\n"}}], next: slow}
  - {name: slow, kind: tools, calls: [{tool: run_command, args: {command: sleep 2; echo 1 >> log; cat log}}], next: last}
  - {name: last, kind: tools, calls: [{tool: read_file, args: {path: log}}]}
`)
	first := c.conclave("pipeline", "run", "--offline", "--automation", file, "Once, unharmed")
	confined(t, first)
	require.Equal(t, 0, first.code)
	run := c.start("pipeline", "run", "--offline", "--automation", "--id", "killed", file, "Once more")
	run.prints(t, "slow begins")
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "--automation", "killed")
	require.Equal(t, 0, out.code)
	require.Equal(t, "draft/completed slow/completed last/completed", traced(endOf(t, out)))
	require.Equal(t, endOf(t, first).Final, endOf(t, out).Final, "appended once")
}

// All errors are found before anything starts.
func TestPipelineRefusals(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	wrong := c.file("wrong.yaml", "start: man\nagents: [{id: a, backend: {model: m}}]\nsteps:\n  - {name: main, next: lnt}\n  - {name: lint, agent: b}\n")
	for _, args := range [][]string{{"validate", wrong}, {"run", wrong, "q"}} {
		out := c.conclave(append([]string{"pipeline"}, args...)...)
		require.Equal(t, 1, out.code)
		for _, problem := range []string{wrong + ":1:8: start:", wrong + ":4:24: steps[0].next", wrong + ":5:25: steps[1].agent"} {
			require.Contains(t, out.stderr, problem)
		}
	}
	require.NoDirExists(t, filepath.Join(c.home, ".local"), "nothing was started")
	nowhere := c.file("nowhere.yaml", "start: main\nagents: [{id: a, backend: {type: offline}}]\nsteps:\n  - {name: main}\n  - {name: island}\n")
	out := c.conclave("pipeline", "run", nowhere, "q")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stderr, "warning: "+nowhere+":5:5: steps[1]:")
	began := time.Now()
	require.Equal(t, 1, c.conclave("pipeline", "run", "--address", "127.0.0.1:1", nowhere, "q").code)
	require.Less(t, time.Since(began), 20*time.Second)
}
