//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/engine/pipeline"
)

// inBranch joins the trace of a branch, or of the first line.
func inBranch(r acts.Result, branch string) string {
	var all []string
	for _, g := range r.Trace {
		if string(g.Branch) == branch {
			all = append(all, g.Step+"/"+string(g.Status))
		}
	}
	return strings.Join(all, " ")
}

// Both examples run offline to their ends.
func TestPipelineExamplesThatBranch(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	require.NoError(t, os.MkdirAll(filepath.Join(c.home, "folder/papers"), 0o755))
	for _, name := range []string{"one", "two words", "three"} {
		c.file("folder/papers/"+name+".txt", name)
	}
	out := c.conclave("pipeline", "run", "--offline", "--automation", "--id", "papers", "--base", filepath.Join(c.home, "folder"), example(t, "papers.yaml"), "What do they say?")
	confined(t, out)
	require.Equal(t, 0, out.code)
	r := endOf(t, out)
	require.Equal(t, "list/completed each/completed report/completed", inBranch(r, ""))
	for _, branch := range []string{"each/0", "each/1", "each/2"} {
		require.Equal(t, "read/completed", inBranch(r, branch))
	}
	require.Equal(t, 0, c.conclave("pull", "--verify", "papers", filepath.Join(c.home, "pulled")).code)
	require.FileExists(t, filepath.Join(c.home, "pulled/branches/each/1/steps/001-read/output.json"))
	require.Contains(t, c.conclave("transcript", "papers", "each/1/read", "1").stdout, "papers/three.txt", "the second by name")

	out = c.conclave("pipeline", "run", "--offline", "--automation", "--base", filepath.Join(c.home, "folder"), example(t, "review.yaml"), "What is wrong?")
	require.Equal(t, 0, out.code)
	r = endOf(t, out)
	require.Equal(t, "review/completed verify/completed", inBranch(r, ""))
	require.Equal(t, "security/completed", inBranch(r, "review/security"))
}

// A worker that dies while two branches run loses one call of each at most. Their files are merged, and no step that
// had ended runs again.
func TestPipelineKilledInBranches(t *testing.T) {
	t.Parallel()
	asked, hold := make(chan struct{}), make(chan struct{})
	script := map[string][]reply{
		"model-a": {write("a.txt", "one"), says("Lost.").during(func() { close(asked); <-hold }), says("A."), says("Joined.")},
		"model-b": {write("b.txt", "two"), says("B.")},
	}
	model := newModelServer(t, script)
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	file := c.file("p.yaml", model.pipeline(`start: both
steps:
  - {name: both, kind: parallel, branches: {left: one, right: two}, next: end}
  - {name: one, agent: agent_a}
  - {name: two, agent: agent_b}
  - {name: end, agent: agent_a, history: true}
`))
	run := c.start("pipeline", "run", "--automation", "--id", "killed", file, "A haiku")
	<-asked
	run.prints(t, "both/right ended")
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "--automation", "killed")
	require.Equal(t, 0, out.code)
	r := endOf(t, out)
	require.Equal(t, pipeline.Completed, r.Status)
	require.Equal(t, "both/completed end/completed", inBranch(r, ""))
	require.Equal(t, "one/completed", inBranch(r, "both/left"))
	require.Equal(t, "two/completed", inBranch(r, "both/right"))
	require.Equal(t, 4, model.calls("model-a"))
	require.Equal(t, 2, model.calls("model-b"), "the branch that had ended is not run again")
	require.Equal(t, "a.txt\nb.txt\n", c.conclave("diff", "--name-only", "killed").stdout)
}

// What branches change differently is a conflict. A step that follows it has both sides, and no diff has them.
func TestPipelineConflict(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	graph := `start: both
agents: [{id: a, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: both, kind: parallel, branches: {left: one, right: two}, on_conflict: CONFLICT}
  - {name: one, kind: tools, calls: [{tool: write_file, args: {path: x.txt, content: "1\n"}}]}
  - {name: two, kind: tools, calls: [{tool: write_file, args: {path: x.txt, content: "2\n"}}]}
  - {name: merge, kind: tools, calls: [{tool: run_command, args: {command: cat .conclave/branches/left/x.txt .conclave/branches/right/x.txt > x.txt; cat x.txt}}]}
`
	out := c.conclave("pipeline", "run", "--offline", "--automation", c.file("a.yaml", strings.Replace(graph, "CONFLICT", "merge", 1)), "Both")
	confined(t, out)
	require.Equal(t, 0, out.code)
	r := endOf(t, out)
	require.Equal(t, "both/completed merge/completed", inBranch(r, ""))
	require.Contains(t, r.Final, "1\n2\n")
	require.Equal(t, "x.txt\n", c.conclave("diff", "--name-only", r.ID).stdout)

	out = c.conclave("pipeline", "run", "--offline", "--automation", c.file("b.yaml", strings.Replace(graph, "CONFLICT", "fail", 1)), "Both")
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "branches changed the same files differently: x.txt")
}

// Cancelling a run ends its branches, and its finally step runs. It goes on with the branches that were cut off.
func TestPipelineCancelledInBranches(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := c.file("p.yaml", `start: each
finally: tidy
agents: [{id: a, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: each, kind: for_each, items: [1, 30, 30], step: work, at_once: 2}
  - {name: work, kind: tools, calls: [{tool: run_command, args: {command: "test -e again || sleep {{ .item }}; echo {{ .index }}"}}]}
  - {name: tidy, kind: tools, calls: [{tool: run_command, args: {command: echo tidied}}]}
`)
	run := c.start("pipeline", "run", "--offline", "--automation", "--id", "cut", file, "Work")
	run.prints(t, "each/2: work begins")
	require.Equal(t, 0, c.conclave("cancel", "cut").code)
	require.Equal(t, 2, run.ends(t))
	r := endOf(t, c.conclave("result", "--automation", "cut"))
	require.Equal(t, pipeline.Cancelled, r.Status)
	require.Equal(t, "work/completed", inBranch(r, "each/0"))
	require.Equal(t, "work/cancelled", inBranch(r, "each/1"))
	require.Equal(t, "tidy/completed", inBranch(r, ""))
}

// A person approves while another branch runs and everything is killed in between: the question stays, is answered
// once, and the branch that had ended does not run again. The migration asks before it changes a file.
func TestPipelineApproval(t *testing.T) {
	t.Parallel()
	script := map[string][]reply{"model-a": {says("Drafted."), says("Done as said.")}, "model-b": {says("Looked.")}}
	model := newModelServer(t, script)
	c := newCLI(t)
	file := c.file("p.yaml", model.pipeline(`start: both
steps:
  - {name: both, kind: parallel, branches: {left: draft, right: look}, next: end}
  - {name: draft, agent: agent_a, next: gate}
  - {name: gate, kind: approval, question: "Ship {{ .steps.draft.text }}", next: [{when: {approved: true}, to: ship}, {to: when}]}
  - {name: when, kind: approval, question: When?, options: [now, later], next: ship}
  - {name: ship, kind: tools, calls: [{tool: write_file, args: {path: said.txt, content: "{{ .steps.when.text }}"}}]}
  - {name: look, agent: agent_b}
  - {name: end, agent: agent_a, history: true}
`))
	out := c.conclave("pipeline", "run", "--automation", "--id", "asks", file, "A haiku")
	require.Equal(t, 2, out.code, out.stderr)
	require.Equal(t, "waiting_for_person", lastOf(out.stderr))
	c.killAll()
	q := c.waiting(t)
	require.Equal(t, []string{"asks", "approval", "Ship Drafted."}, []string{q.ID, q.Kind, q.Text})
	require.Contains(t, c.conclave("list").stdout+c.conclave("pipeline", "list").stdout, "waiting")
	require.Contains(t, c.conclave("status", "asks").stdout, "both/left · gate asks: Ship Drafted.")
	require.Equal(t, 1, c.conclave("reply", "asks", "yes").code, "it takes no text")
	require.Equal(t, 0, c.conclave("deny", "asks", "--note", "not so fast").code)
	refused := c.conclave("approve", "asks", q.Question)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "is closed: denied: not so fast, by ")
	c.killAll()
	require.Equal(t, 2, c.conclave("watch", "--automation", "asks").code)
	c.killAll()
	require.Equal(t, 1, c.conclave("approve", "asks").code, "it has options")
	require.Equal(t, 0, c.conclave("reply", "asks", "--option", "2").code)
	out = c.conclave("watch", "--automation", "asks")
	require.Equal(t, 0, out.code, out.stderr)
	r := endOf(t, out)
	require.Equal(t, "draft/completed gate/completed when/completed ship/completed", inBranch(r, "both/left"))
	require.Equal(t, "look/completed", inBranch(r, "both/right"))
	require.Equal(t, "both/completed end/completed", inBranch(r, ""))
	require.Equal(t, 2, model.calls("model-a"))
	require.Equal(t, 1, model.calls("model-b"), "the branch that had ended is not run again")
	require.JSONEq(t, `{"approved":false,"option":0,"text":"not so fast","by":`+quoted(t, r, "gate", "by")+`}`, string(r.Outputs["gate"]))
	pulled := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "asks", pulled).code)
	require.FileExists(t, filepath.Join(pulled, "questions", q.Question+".answer.json"))
	said, err := os.ReadFile(filepath.Join(pulled, "branches/both/left/steps/004-ship/workspace/said.txt"))
	require.NoError(t, err)
	require.Equal(t, "later", string(said))

	require.NoError(t, os.MkdirAll(filepath.Join(c.home, "repo"), 0o755))
	c.file("repo/a.go", "package a\n")
	c.file("repo/b.go", "package a\n")
	out = c.conclave("pipeline", "run", "--offline", "--automation", "--id", "moves", "--base", filepath.Join(c.home, "repo"), example(t, "migration.yaml"), "Rename it.")
	confined(t, out)
	require.Equal(t, 2, out.code, out.stderr)
	require.Empty(t, c.conclave("diff", "--name-only", "moves").stdout, "nothing is changed before the approval")
	require.Equal(t, 0, c.conclave("deny", "moves").code)
	r = endOf(t, c.conclave("watch", "--automation", "moves"))
	require.Equal(t, "escalated", r.EndedAs)
	require.Equal(t, "list/completed plan/completed gate/completed", inBranch(r, ""))
}

// quoted returns a part of a step's output as JSON.
func quoted(t *testing.T, r acts.Result, step, part string) string {
	t.Helper()
	var output map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(r.Outputs[step], &output))
	return string(output[part])
}

// A pipeline whose steps are other files runs as one definition, which other clients can send.
func TestPipelineNested(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.file("note.yaml", `start: write
result: say
inputs: {type: object, properties: {name: {type: string}}, required: [name]}
agents: [{id: a, backend: {type: offline}, tools: {files: true}}]
steps:
  - {name: write, kind: tools, calls: [{tool: write_file, args: {path: "{{ .inputs.name }}.txt", content: it}}], next: say}
  - {name: say, kind: tools, calls: [{tool: read_file, args: {path: "{{ .inputs.name }}.txt"}}], next: end}
  - {name: end, prompt: Say goodbye.}
`)
	file := c.file("p.yaml", `start: each
agents: [{id: a, backend: {type: offline}}]
steps:
  - {name: each, kind: for_each, items: [one, two], step: note, next: last}
  - {name: note, kind: pipeline, file: note.yaml, inputs: {name: "{{ .item }}"}}
  - {name: last, kind: pipeline, file: note.yaml, inputs: {name: three}}
`)
	out := c.conclave("pipeline", "run", "--automation", "--id", "nested", file, "Go.")
	require.Equal(t, 0, out.code, out.stderr)
	r := endOf(t, out)
	require.Equal(t, "each/completed last/completed", inBranch(r, ""))
	require.Equal(t, "write/completed say/completed end/completed", inBranch(r, "each/1/note/run"))
	require.Equal(t, "write-2/completed say-2/completed end-2/completed", inBranch(r, "last/run"))
	require.Equal(t, "it", r.Final, "the text of its result, not that of its last step")
	require.Equal(t, "one.txt\nthree.txt\ntwo.txt\n", c.conclave("diff", "--name-only", "nested").stdout)

	whole := c.file("whole.json", c.conclave("pipeline", "validate", "--whole", file).stdout)
	require.Equal(t, 0, c.conclave("pipeline", "run", "--automation", whole, "Go.").code)
}
