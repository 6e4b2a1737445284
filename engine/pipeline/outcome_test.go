package pipeline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func yes(b bool) *bool { return &b }

func code(n int) *int { return &n }

// repair is a graph in which the outcome of lint selects fix or export.
func repair(rules ...Branch) Graph {
	return Graph{Start: "lint", Steps: []Node{
		{Name: "lint", Kind: Tools, Next: rules}, {Name: "fix", History: AllTexts}, {Name: "export"},
	}}
}

func TestRules_lookAtOutcomes(t *testing.T) {
	t.Parallel()
	export := Branch{To: "export"}
	for name, test := range map[string]struct {
		rules   []Branch
		line    string
		leadsTo string // empty: the run ends
	}{
		"a failed call":              {[]Branch{{Failed: yes(true), To: "fix"}, export}, "exits 3", "fix"},
		"no failed call":             {[]Branch{{Failed: yes(true), To: "fix"}, export}, "exits 0", "export"},
		"failed: false":              {[]Branch{{Failed: yes(false), To: "export"}, {To: "fix"}}, "exits 0", "export"},
		"an exit code":               {[]Branch{{ExitCode: code(3), To: "fix"}, export}, "exits 3", "fix"},
		"another exit code":          {[]Branch{{ExitCode: code(3), To: "fix"}, export}, "exits 1", "export"},
		"no exit code":               {[]Branch{{ExitCode: code(0), To: "fix"}, export}, "says done", "export"},
		"exit code 0":                {[]Branch{{ExitCode: code(0), To: "fix"}, export}, "exits 0", "fix"},
		"a text":                     {[]Branch{export, {TextMatches: "x", To: "fix"}}, "matches 1", "export"},
		"a text, first":              {[]Branch{{TextMatches: "x", To: "fix"}, export}, "matches 0", "fix"},
		"another text":               {[]Branch{{TextMatches: "x", To: "fix"}, export}, "matches 7", "export"},
		"both conditions":            {[]Branch{{Failed: yes(true), ExitCode: code(2), To: "fix"}, export}, "exits 3", "export"},
		"a team's status":            {[]Branch{{When: "plurality", To: "fix"}, export}, "decides plurality", "fix"},
		"another status of a team":   {[]Branch{{When: "plurality", To: "fix"}, export}, "decides consensus", "export"},
		"a team that has completed":  {[]Branch{{When: Completed, To: "fix"}, export}, "decides consensus", "fix"},
		"a team without an answer":   {[]Branch{{When: "failed", To: "fix"}, export}, "undecided failed", "fix"},
		"an error":                   {[]Branch{export, {When: Failed, To: "fix"}}, "breaks no line", "fix"},
		"an error, failed":           {[]Branch{export, {Failed: yes(true), To: "fix"}}, "breaks no line", "fix"},
		"an error that none names":   {[]Branch{{Failed: yes(false), To: "fix"}, export}, "breaks no line", ""},
		"on_tool_error: fail":        {[]Branch{export, {When: Failed, ExitCode: code(1), To: "fix"}}, "fails exit code 1", "fix"},
		"a failure that none names":  {[]Branch{{ExitCode: code(1), To: "fix"}, export}, "fails exit code 1", ""},
		"max_iterations is no error": {[]Branch{{When: Failed, To: "fix"}, export}, "max", "export"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, repair(test.rules...)).play("lint " + test.line)
			if test.leadsTo == "" {
				require.Equal(t, Failed, r.done.Status)
				return
			}
			require.Equal(t, test.leadsTo, r.at.Step)
		})
	}
}

// A rule for the failure takes precedence over on_step_failure, and later steps are told
// of the failure.
func TestFailure_leftByARule(t *testing.T) {
	t.Parallel()
	g := repair(Branch{When: Failed, To: "fix"})
	g.Park = true
	r := start(t, g).play("lint breaks no line")
	require.Nil(t, r.state.Parked)
	require.Equal(t, []Ref{{Number: 1, Step: "lint", Note: "lint failed, Network: no line", Textless: true}}, r.at.History)
	r.play("fix says mended").ended(Completed, "lint/error fix/completed")
	require.Equal(t, &Ref{Number: 2, Step: "fix"}, r.done.Final)

	r = start(t, g).play("lint fails exit code 1")
	require.Equal(t, []Ref{{Number: 1, Step: "lint", Note: "lint failed, ToolFailed: exit code 1"}}, r.at.History, "with its text")
	require.Equal(t, "w1", r.at.Workspace, "and its files")
}

// If a called step fails, its caller continues to wait. The next step that ends without an action
// returns to the caller.
func TestFailure_ofACalledStep(t *testing.T) {
	t.Parallel()
	g := Graph{Start: "main", Steps: []Node{
		{Name: "main", Destinations: []string{"lint"}},
		{Name: "lint", Kind: Tools, Next: []Branch{{Failed: yes(true), To: "fix"}}},
		{Name: "fix"},
	}}
	start(t, g).play("main call lint\nlint breaks no line\nfix says mended\nmain says done").
		ended(Completed, "main/call_pending lint/error fix/completed main/completed")
	start(t, g).play("main call lint\nlint exits 1\nmain says done").
		ended(Completed, "main/call_pending lint/completed main/completed")
}

// A retry of a tools step repeats all its calls, with the files that the step left.
func TestRetry_ofAFailedCall(t *testing.T) {
	t.Parallel()
	g := repair(Branch{To: "export"})
	g.Park = true
	r := start(t, g).play("lint fails exit code 1")
	require.Equal(t, &Failure{Type: "ToolFailed", Message: "exit code 1"}, r.state.Parked)
	r.state.Step(Retry{})
	r.drain()
	require.Equal(t, "lint", r.at.Step)
	require.Empty(t, r.at.ResumeFrom)
	require.Empty(t, r.at.Workspace)
	r.play("lint exits 0\nexport done").ended(Completed, "lint/error lint/completed export/completed")

	ended := start(t, repair()).play("lint fails exit code 1").ended(Failed, "lint/error")
	require.Equal(t, "ToolFailed: exit code 1", ended.done.Reason)
	require.NoError(t, ended.state.Refuse(Reopened{Run: "r"}))
	ended.state.Step(Reopened{Run: "r"})
	require.Empty(t, launchOf(t, ended.state.Drain()).ResumeFrom)
}

// review returns a graph with a loop of draft and review that has a limit.
func review(instead string) Graph {
	return Graph{Start: "draft", Steps: []Node{
		{Name: "draft", MaxVisits: 2, Instead: instead, Next: []Branch{{To: "review"}}},
		{Name: "review", Destinations: []string{"draft", "publish"}, Next: []Branch{{To: "draft"}}},
		{Name: "publish"},
	}}
}

func TestMaxVisits(t *testing.T) {
	t.Parallel()
	const twice = "draft done\nreview done\ndraft done\nreview "
	const trace = "draft/completed review/completed draft/completed review/completed"
	start(t, review("publish")).play(twice+"done\npublish done").ended(Completed, trace+" publish/completed")
	start(t, review("publish")).play(twice+"jump draft\npublish done").ended(Completed, trace+" publish/completed")
	r := start(t, review("publish")).play(strings.TrimSuffix(twice, "\nreview "))
	require.Equal(t, []string{"draft"}, r.at.Closed, "it cannot be called")
	r.play("review call draft")
	require.Equal(t, Failed, r.done.Status, "the run ends with the status of the step before")

	start(t, review("")).play(twice+"done").ended(Completed, trace)
	start(t, review("")).play(twice+"breaks no line").ended(Failed, "draft/completed review/completed draft/completed review/error")
}

// A return and a retry do not count as visits.
func TestMaxVisits_countEntries(t *testing.T) {
	t.Parallel()
	g := Graph{Start: "main", Park: true, Steps: []Node{{Name: "main", MaxVisits: 1, Destinations: []string{"lint"}}, {Name: "lint"}}}
	r := start(t, g).play("main call lint\nlint done\nmain breaks no line")
	r.state.Step(Retry{})
	r.drain()
	r.play("main call lint\nlint done\nmain done")
	require.Equal(t, Completed, r.done.Status)
}

func limited(l Limits) Graph {
	return Graph{Start: "main", Steps: []Node{{Name: "main", Limits: l, MaxIterations: 5, Next: []Branch{{When: Failed, To: "fix"}, {When: MaxIterations, To: "fix"}, {To: "main"}}}, {Name: "fix", History: AllTexts}}}
}

// The limits of a step apply to all its visits together.
func TestLimits_ofAStep(t *testing.T) {
	t.Parallel()
	r := start(t, limited(Limits{ModelCalls: 7})).play("main done")
	require.Equal(t, 5, r.at.Most, "of one visit")
	r.play("main done\nmain done")
	require.Equal(t, 4, r.at.Most, "three calls are made")
	r.play("main done\nmain done\nmain done\nmain done")
	require.Equal(t, "fix", r.at.Step)
	require.Equal(t, Ref{Step: "main", Note: "main used up its model calls and was stopped", Textless: true}, r.at.History[0])

	r = start(t, limited(Limits{CostUSD: 1})).play("main spends 0.75")
	require.InDelta(t, 0.25, r.at.CostUSD, 1e-9)
	r.play("main spends 0.25")
	require.Equal(t, "fix", r.at.Step)
	require.Equal(t, "main failed, BudgetSpent: main spent $1.0000, and its limits.cost_usd is $1.0000", r.at.History[0].Note)

	r = start(t, limited(Limits{Seconds: 60})).play("main takes 45")
	require.InDelta(t, 15, r.at.Seconds, 1e-9)
	r.play("main takes 15.5")
	require.Equal(t, "fix", r.at.Step)
	require.Contains(t, r.at.History[0].Note, "main ran for 60 s, and its limits.seconds is 60")
}

// A person's retry resets the limits of the step; a pause does not.
func TestLimits_afterARetry(t *testing.T) {
	t.Parallel()
	r := start(t, Graph{Start: "main", Park: true, Steps: []Node{{Name: "main", MaxIterations: 9, Limits: Limits{Seconds: 60, ModelCalls: 4}}}})
	r.state.Step(Pause{})
	r.drain()
	r.state.Step(Suspended{Launch: r.at.ID, Number: 1, Token: "t", Seconds: 20, Usage: r.usage(3)})
	r.state.Step(Resume{})
	r.drain()
	require.InDelta(t, 40, r.at.Seconds, 1e-9)
	require.Equal(t, 4, r.at.Most, "three of them are in its journal")
	r.state.Step(Broke{Launch: r.at.ID, Number: 1, Token: "t", Seconds: 40, Usage: r.usage(1), Cause: Failure{Type: TimeOver, Message: "late"}})
	r.drain()
	r.state.Step(Retry{})
	r.drain()
	require.InDelta(t, 60, r.at.Seconds, 1e-9)
	require.Equal(t, "t", r.at.ResumeFrom)
	require.Equal(t, 8, r.at.Most)
}

func TestLimits_ofTheRun(t *testing.T) {
	t.Parallel()
	g := limited(Limits{CostUSD: 5})
	g.CostUSD, g.Seconds = 1, 600
	r := start(t, g).play("main spends 0.5")
	require.InDelta(t, 0.5, r.at.CostUSD, 1e-9, "the smaller allowance")
	r.play("main spends 0.5").ended(Failed, "main/completed main/completed")
	require.Equal(t, BudgetSpent, r.done.Limit)
	require.Equal(t, "the run spent $1.0000, and limits.cost_usd is $1.0000", r.done.Reason)
	require.ErrorContains(t, r.state.Refuse(Reopened{Run: "r"}), "start it again with a higher limit")

	r = start(t, g)
	r.state.Step(Broke{Launch: r.at.ID, Number: 1, Usage: r.dollars(2), Cause: Failure{Type: BudgetSpent, Message: "spent"}})
	r.drain()
	require.Equal(t, BudgetSpent, r.done.Limit, "no rule of a step continues a run without money")

	r = start(t, g)
	r.state.Step(TimeUp{})
	require.Equal(t, []Command{Stop{"l1"}, Done{*r.state.Result}}, r.state.Drain())
	require.Equal(t, TimeOver, r.state.Result.Limit)
	require.Equal(t, "the run's time of 600 s is over: limits.seconds", r.state.Result.Reason)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	g := Graph{Start: "draft", Steps: []Node{
		{Name: "draft", History: LastTexts, Next: []Branch{{To: "review"}}},
		{Name: "review", History: AllTexts, Next: []Branch{{To: "draft"}}},
	}}
	r := start(t, g).play("draft says one\nreview says no\ndraft says two\nreview says better")
	require.Equal(t, []Ref{{Number: 3, Step: "draft"}, {Number: 4, Step: "review"}}, r.at.History, "the newest of every step")
	r.play("draft says three")
	require.Len(t, r.at.History, 5)

	var p Policy
	for text, want := range map[string]Policy{"true": AllTexts, "false": HideTexts, `"last"`: LastTexts, `"all"`: AllTexts} {
		require.NoError(t, p.UnmarshalJSON([]byte(text)))
		require.Equal(t, want, p)
	}
	require.Error(t, p.UnmarshalJSON([]byte("7")))
}
