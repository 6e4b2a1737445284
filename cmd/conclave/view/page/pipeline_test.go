package page

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
)

func TestPipeline(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	visit := func(n int, name, text string) record.Visit {
		return record.Visit{
			TraceEntry: pipeline.TraceEntry{Number: n, Step: name, Status: pipeline.Completed}, Text: text,
			Started: at.Add(time.Duration(n) * time.Second), Ended: at.Add(time.Duration(n+2) * time.Second),
		}
	}
	run := &record.Pipeline{
		State: acts.State{ID: "p1", Request: "A <b>haiku</b>", Status: "completed"}, Nodes: []string{"main", "lint", "export"}, Final: "# Done\n<script>x</script>",
		Visits: []record.Visit{visit(1, "main", "one"), visit(2, "lint", "bad"), visit(3, "main", "two"), visit(4, "lint", "clean")},
	}
	html, err := Pipeline(t.Context(), run, "", at)
	require.NoError(t, err)
	for _, want := range []string{
		"<h1>A &lt;b&gt;haiku&lt;/b&gt;</h1>", "<h3>Done</h3>", "2 visits, 4.0 s", "not visited", ">2×</text>", `id="visit-4"`,
	} {
		require.Contains(t, string(html), want)
	}
	require.Equal(t, 1, strings.Count(string(html), "<script>"))
	require.Equal(t, 2, strings.Count(string(html), `class="tip"`))
	require.Equal(t, "# Done\n<script>x</script>\n", PipelineText(run))
	require.NotContains(t, string(html), "Nothing was run")
	run.NoShell = "no <sandbox>"
	html, err = Pipeline(t.Context(), run, "", at)
	require.NoError(t, err)
	require.Contains(t, string(html), "Nothing was run, no test and no program: the agents could not run commands: no &lt;sandbox&gt;")
	require.Equal(t, "# Done\n<script>x</script>\n\nNothing was run, no test and no program: the agents could not run commands: no <sandbox>\n", PipelineText(run))
	require.Equal(t, "The run has no final text; its status is running.\n", PipelineText(&record.Pipeline{State: acts.State{Status: "running"}}))
}

// A standalone page has the files of the visits, each content once.
func TestPipeline_files(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old <b>pond</b>", "")
	r.Visit(2, "export", "An old <b>pond</b>", "")
	run, err := record.ReadPipeline(t.Context(), r.Store, r.Layout)
	require.NoError(t, err)
	html, err := Pipeline(t.Context(), run, "", stage.Began)
	require.NoError(t, err)
	require.Contains(t, string(html), `<pre class="code" id="file-visit_1-haiku.txt" tabindex="0">An old &lt;b&gt;pond&lt;/b&gt;`)
	require.Contains(t, string(html), `haiku.txt <small>19 bytes, as in <a href="#visit-1">visit 1</a></small>`)
}

// A running step that a team decides links to the session of the team.
func TestDrawPipeline_team(t *testing.T) {
	t.Parallel()
	run := &record.Pipeline{State: acts.State{ID: "p1", Request: "A haiku", Status: "running", View: pipeline.View{Step: "decide"}}, Nodes: []string{"main", "decide"}}
	live := Live{Base: "/pipelines/p1", Running: []cli.Activity{
		{Work: "team", Session: "p1-decide-l2", Doing: coordination.Doing{What: "session p1-decide-l2"}},
		{Work: "agent_a of the team", Doing: coordination.Doing{Kind: coordination.CallsModel, What: "model call 3"}},
	}}
	d, err := DrawPipeline(t.Context(), run, live, time.Now())
	require.NoError(t, err)
	html, err := d.Page("e.1", "", false)
	require.NoError(t, err)
	require.Contains(t, string(html), `<li>A team decides the step in <a href="/sessions/p1-decide-l2">its session</a>.</li>`)
	require.Contains(t, string(html), "<li>agent_a of the team")
}

// A visit is led to by the one before it in its line, the first of a branch by its fork.
func TestStepBefore(t *testing.T) {
	t.Parallel()
	var visits []record.Visit
	var ways []string
	for _, g := range []pipeline.TraceEntry{
		{Step: "plan"},
		{Branch: "review/a", Step: "lint"},
		{Branch: "review/b", Step: "audit"},
		{Branch: "review/a", Step: "fix"},
		{Branch: "review/b/each/0", Step: "read"},
		{Step: "review"},
		{Step: "report"},
	} {
		v := record.Visit{TraceEntry: g}
		ways = append(ways, stepBefore(visits, v)+" "+g.Step)
		visits = append(visits, v)
	}
	require.Equal(t, []string{". plan", "review lint", "review audit", "lint fix", "each read", "plan review", "review report"}, ways)
}

func TestIsFolded(t *testing.T) {
	t.Parallel()
	for branch, folded := range map[string]bool{"": false, "review/style": false, "each/11": false, "each/12": true, "review/a/each/40/two/run": true} {
		require.Equal(t, folded, isFolded(branch), branch)
	}
}
