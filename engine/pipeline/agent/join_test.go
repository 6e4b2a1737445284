package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
)

// branch runs a step of a branch of review, with a file and a text, and returns its end for the join.
func (d *desk) branch(name string, replies ...llm.Message) pipeline.Joined {
	d.t.Helper()
	l := launch("look", 0)
	l.Branch, l.ID = "review/"+name, "l-"+name
	r, _ := d.run(d.step(l, "run-"+l.ID), replies...)
	o := d.outcome(r)
	return pipeline.Joined{Name: name, Status: o.Status, Final: &pipeline.Ref{Number: r.Step, Step: "look", Branch: l.Branch}, Workspace: o.Workspace, Changed: o.Workspace != ""}
}

// join runs the step that joins branches.
func (d *desk) join(kind pipeline.Kind, named bool, branches ...pipeline.Joined) pipeline.Ended {
	d.t.Helper()
	l := launch("review", 1)
	l.Kind, l.Join = kind, &pipeline.Join{Branches: branches}
	s := d.step(l, "run-l9")
	s.Agent, s.Destinations = "", nil
	m, err := s.JoinBranches(d.t.Context(), d.store, named)
	require.NoError(d.t, err)
	s.Join, s.Launch.Workspace = m, m.Workspace
	spec, err := s.Spec(d.t.Context(), d.store)
	require.NoError(d.t, err)
	r := d.perform(spec, sayer(m.Text))
	return d.outcome(r)
}

// sayer replies with itself.
type sayer string

func (s sayer) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: string(s)}}, nil
}

var _ loop.Model = sayer("")

func TestJoin(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, b := d.branch("a", writes("a.txt", "one"), says("Fine.")), d.branch("b", writes("b.txt", "two"), says("Broken."))
	lost := pipeline.Joined{Name: "c", Status: pipeline.Failed, Reason: "Network: no line"}
	o := d.join(pipeline.Parallel, false, a, b, lost)
	require.Equal(t, pipeline.Completed, o.Status)
	require.Equal(t, "## a\n\nFine.\n\n## b\n\nBroken.\n\n## c\n\n[error: Network: no line]", o.Text)
	require.JSONEq(t, `{"a":"Fine.","b":"Broken.","c":null}`, string(o.Output))
	require.Equal(t, 1, o.Lost)
	require.Empty(t, o.Conflicts)
	m, err := artifact.LoadManifest(t.Context(), d.store, d.layout, o.Workspace)
	require.NoError(t, err)
	require.Len(t, m.Files, 2)
	require.JSONEq(t, string(o.Output), string(read[json.RawMessage](d, "steps/002-review/output.json")), "the claim of the branch is not one of the run")
	require.Contains(t, d.keys(), "branches/review/a/steps/001-look/answer.json")
	require.Contains(t, d.keys(), "branches/review/a/claims/001.json")
}

func TestJoin_conflict(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, b := d.branch("a", writes("x.txt", "one"), says("")), d.branch("b", writes("x.txt", "two"), says(""))
	failed := b
	failed.Status = pipeline.Failed
	require.Equal(t, a.Workspace, d.join(pipeline.ForEach, false, a, failed).Workspace, "files of a branch that failed do not count")

	d = newDesk(t)
	a, b = d.branch("a", writes("x.txt", "one"), says("")), d.branch("b", writes("x.txt", "two"), says(""))
	o := d.join(pipeline.Parallel, false, a, b)
	require.Equal(t, pipeline.Failed, o.Status)
	require.Equal(t, pipeline.Failure{Type: pipeline.Conflict, Message: "branches changed the same files differently: x.txt; both sides are in .conclave/branches"}, *o.Cause)

	d = newDesk(t)
	a, b = d.branch("a", writes("x.txt", "one"), says("")), d.branch("b", writes("x.txt", "two"), says(""))
	o = d.join(pipeline.Parallel, true, a, b)
	require.Equal(t, pipeline.Completed, o.Status)
	require.Equal(t, []string{"x.txt"}, o.Conflicts)
	m, err := artifact.LoadManifest(t.Context(), d.store, d.layout, o.Workspace)
	require.NoError(t, err)
	require.Equal(t, ".conclave/branches/a/x.txt .conclave/branches/b/x.txt", m.Files[0].Path+" "+m.Files[1].Path)
}

// The results of items are a list in their order, and data stay data.
func TestJoin_items(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l := launch("look", 0)
	l.Branch = "each/1"
	s := d.step(l, "run-l1")
	s.Output = schema(t, verdict)
	r, _ := d.run(s, submits(`{"verdict":"ship"}`))
	second := pipeline.Joined{Name: "1", Status: pipeline.Completed, Final: &pipeline.Ref{Number: r.Step, Step: "look", Branch: "each/1"}}
	first := d.branch("0", says("A text."))
	o := d.join(pipeline.ForEach, false, first, second)
	require.JSONEq(t, `["A text.",{"verdict":"ship"}]`, string(o.Output))

	require.JSONEq(t, `[]`, string(newDesk(t).join(pipeline.ForEach, false).Output), "no items")
}

func TestCountLists(t *testing.T) {
	t.Parallel()
	long := `["` + strings.Repeat("a", maxList) + `"]`
	for output, want := range map[string]string{
		`{"files":["a","b"]}`:             "2 ",
		`{"files":[]}`:                    "0 ",
		`{"files":[1,2,3,4]}`:             "0 its output at files has 4 items, and max_items is 3",
		`{"files":"a"}`:                   "0 its output at files is no list",
		`{"files":null}`:                  "0 its output at files is no list",
		`{}`:                              "0 its output at files is missing",
		fmt.Sprintf(`{"files":%s}`, long): "0 its output at files has 1.0 MB, and a list of items has at most 1.0 MB",
	} {
		counted := countLists([]List{{For: "each", Path: []string{"files"}, Most: 3}}, json.RawMessage(output))
		require.Equal(t, want, fmt.Sprintf("%d %s", counted[0].Items, counted[0].Why), "%.80s", output)
	}
	require.Equal(t, []pipeline.List{{For: "each", Items: 1}}, countLists([]List{{For: "each", Most: 3}}, json.RawMessage(`[1]`)))
	require.Empty(t, countLists([]List{{For: "each", Most: 3}}, nil), "a step without an output")
}

// The fields .item and .index have the values of the launch, from the list of a step or of the definition.
func TestValues_ofAnItem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.step(launch("plan", 0), "run-l1")
	s.Output = schema(t, `{"type":"object","properties":{"files":{"type":"array"}}}`)
	r, _ := d.run(s, submits(`{"files":[{"name":"a.txt"},"b"]}`))
	for index, want := range []string{"a.txt 0 {\"name\":\"a.txt\"}", " 1 \"b\""} {
		l := launch("look", 0)
		l.Branch, l.Item = "each/0", &pipeline.Item{Step: "each", Index: index, From: &pipeline.Ref{Number: r.Step, Step: "plan"}}
		s := d.step(l, "run-l2")
		s.ItemsPath = []string{"files"}
		v, err := s.Values(t.Context(), d.store)
		require.NoError(t, err)
		filled, err := FillArguments("write_file", map[string]any{"content": "{{ .item.name }} {{ .index }} {{ json .item }}"}, v)
		require.NoError(t, err)
		require.Equal(t, want, filled["content"])
	}
	l := launch("look", 0)
	l.Item = &pipeline.Item{Step: "each", Index: 1}
	s = d.step(l, "run-l3")
	s.Items = json.RawMessage(`["x","y z"]`)
	v, err := s.Values(t.Context(), d.store)
	require.NoError(t, err)
	filled, err := FillArguments(llm.RunCommand, map[string]any{"command": "cat {{ .item }}"}, v)
	require.NoError(t, err)
	require.Equal(t, "cat 'y z'", filled["command"])
}

// A message to a branch is read by its steps and those of branches within it alone.
func TestMessages_toABranch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	key := d.layout.Message(1)
	require.NoError(t, artifact.PutJSON(t.Context(), d.store, key, map[string]any{"number": 1, "text": "Hello.", "branch": "review/a"}))
	for branch, hears := range map[string]bool{"": false, "review/a": true, "review/a/deep/b": true, "review/ab": false} {
		l := launch("look", 0)
		l.Branch = branch
		texts, err := d.step(l, "run").TeamMessages(t.Context(), d.store, 0, 1)
		require.NoError(t, err)
		require.Equal(t, hears, len(texts) == 1, branch)
	}
}
