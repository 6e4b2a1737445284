package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// run plays a script against a State: one line for each launch, in order.
//
//	main call lint        main calls lint
//	lint says 3 issues    lint ends with a text
//	main done             main ends without a text
//	main max              main has used up its model calls
//	main breaks           main has exhausted its retries
type run struct {
	t     *testing.T
	state *State
	at    *Launch
	done  *Result
	waits []Wait
	count int
}

func start(t *testing.T, g Graph) *run {
	t.Helper()
	g.Steps = slices.Clone(g.Steps)
	for i := range g.Steps {
		n := &g.Steps[i]
		if n.MaxIterations == 0 {
			n.MaxIterations = DefaultIterations
		}
		if n.Kind == "" {
			n.Kind = Agent
		}
	}
	if g.MaxTransitions == 0 {
		g.MaxTransitions = 100
	}
	if g.MaxDepth == 0 {
		g.MaxDepth = 8
	}
	r := &run{t: t, state: New(g)}
	r.drain()
	return r
}

func (r *run) drain() []Command {
	r.t.Helper()
	// The state is plain data at any point.
	data, err := json.Marshal(r.state)
	require.NoError(r.t, err)
	var copied State
	require.NoError(r.t, json.Unmarshal(data, &copied))
	again, err := json.Marshal(&copied)
	require.NoError(r.t, err)
	require.JSONEq(r.t, string(data), string(again))
	r.state = &copied

	commands := r.state.Drain()
	for _, c := range commands {
		switch c := c.(type) {
		case Launch:
			r.at = &c
		case Done:
			r.done, r.at = &c.Result, nil
		case Wait:
			r.waits = append(r.waits, c)
		case Stop, Hold, Release, Ring, Keep:
		}
	}
	return commands
}

func (r *run) play(lines string) *run {
	r.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		r.line(strings.TrimSpace(line))
	}
	return r
}

func (r *run) line(line string) {
	r.t.Helper()
	step, rest, _ := strings.Cut(line, " ")
	verb, arg, _ := strings.Cut(rest, " ")
	require.NotNil(r.t, r.at, "no step runs for: %s", line)
	require.Equal(r.t, step, r.at.Step, "launched instead of: %s", line)
	r.count++
	e := Ended{
		Launch: r.at.ID, Number: r.at.After + 1, Status: Completed, Iterations: r.at.Used + 1,
		Workspace: fmt.Sprint("w", r.count), Usage: llm.Usage{InputTokens: 10, OutputTokens: 1, ModelCalls: 1},
	}
	switch verb {
	case "says":
		e.Text, e.Said = arg, true
	case "done":
	case "max":
		e.Status, e.Iterations = MaxIterations, r.at.Most
	case "jump":
		e.Action, e.To = Jump, arg
	case "call":
		e.Status, e.Action, e.To, e.Messages = CallPending, Call, arg, fmt.Sprint("m", r.count)
	case "calls-last": // with its last model call
		e.Status, e.Action, e.To, e.Messages, e.Iterations = CallPending, Call, arg, "last", r.at.Most
	case "exits": // a tools step whose command ended with this exit code
		code, err := strconv.Atoi(arg)
		require.NoError(r.t, err)
		e.ExitCode, e.Failed, e.Text, e.Said = &code, code != 0, "exit code "+arg, true
	case "fails": // a tools step with on_tool_error: fail
		code := 1
		e.ExitCode, e.Failed, e.Text, e.Said, e.Status = &code, true, arg, true, Failed
		e.Cause = &Failure{Type: "ToolFailed", Message: arg}
	case "matches": // the pattern of the rule with this number
		n, err := strconv.Atoi(arg)
		require.NoError(r.t, err)
		e.Matched, e.Text, e.Said = []int{n}, "a text", true
	case "decides": // a team, with this status
		e.Team, e.Text, e.Said = arg, "an answer", true
	case "undecided":
		r.state.Step(Broke{Launch: r.at.ID, Number: e.Number, Team: arg, Usage: e.Usage, Cause: Failure{Type: "NoDecision", Message: arg}})
		r.drain()
		return
	case "spends": // dollars
		usd, err := strconv.ParseFloat(arg, 64)
		require.NoError(r.t, err)
		e.Usage.TotalUSD = &usd
	case "takes": // seconds
		seconds, err := strconv.ParseFloat(arg, 64)
		require.NoError(r.t, err)
		e.Seconds = seconds
	case "breaks":
		r.state.Step(Broke{Launch: r.at.ID, Number: e.Number, Token: "t" + r.at.ID, Usage: e.Usage, Cause: Failure{Type: "Network", Message: arg}})
		r.drain()
		return
	default:
		require.Fail(r.t, "no such line", line)
	}
	r.state.Step(e)
	r.drain()
}

// ended requires the outcome, the trace, and the invariants that hold at every end.
func (r *run) ended(status Status, trace string) *run {
	r.t.Helper()
	require.NotNil(r.t, r.done, "the run continues with %v", r.at)
	require.Equal(r.t, status, r.done.Status, r.done.Reason)
	var names []string
	var calls int64
	for _, g := range r.state.Trace {
		names = append(names, g.Step+"/"+string(g.Status))
		calls += g.Usage.ModelCalls
	}
	require.Equal(r.t, trace, strings.Join(names, " "))
	require.Equal(r.t, calls, r.state.Usage.ModelCalls, "usage is the sum over the launches")
	if status != Failed && status != Cancelled {
		require.Empty(r.t, r.state.Stack)
	}
	return r
}

var graph = Graph{
	Start: "main",
	Steps: []Node{
		{Name: "main", Destinations: []string{"lint", "deep", "main"}, Next: []Branch{{To: "export"}}},
		{Name: "lint", Destinations: []string{"deep", "main"}, Next: []Branch{{When: MaxIterations, To: "deep"}}},
		{Name: "deep", Destinations: []string{"lint"}},
		{Name: "export", History: AllTexts},
	},
}

func TestStaticRule(t *testing.T) {
	t.Parallel()
	r := start(t, graph).play(`
		main says drafted
		export says shipped`).ended(Completed, "main/completed export/completed")
	require.Equal(t, &Ref{Number: 2, Step: "export"}, r.done.Final)
	require.Equal(t, []Ref{{Number: 1, Step: "main"}, {Number: 2, Step: "export"}}, r.state.History)

	t.Run("applies after max_iterations", func(t *testing.T) {
		t.Parallel()
		start(t, graph).play("main max\nexport max").ended(MaxIterations, "main/max_iterations export/max_iterations")
	})
	t.Run("distinguishes statuses", func(t *testing.T) {
		t.Parallel()
		start(t, graph).play("main jump lint\nlint max\ndeep done").ended(Completed, "main/completed lint/max_iterations deep/completed")
		start(t, graph).play("main jump lint\nlint done").ended(Completed, "main/completed lint/completed")
	})
}

func TestCall_returns(t *testing.T) {
	t.Parallel()
	r := start(t, graph).play("main call lint")
	require.Equal(t, "lint", r.at.Step)
	require.Nil(t, r.at.Return, "the called step has a conversation of its own")
	require.Empty(t, r.state.History, "a suspended caller adds no text")

	r.play("lint says 3 issues")
	require.Equal(t, "main", r.at.Step)
	require.Equal(t, &Return{Messages: "m1", Called: Ref{Number: 2, Step: "lint"}, Status: Completed}, r.at.Return)
	require.Equal(t, 1, r.at.Used)
	require.Equal(t, "w2", r.at.Workspace, "the caller sees the files of the called step")

	r.play("main says done\nexport done").ended(Completed, "main/call_pending lint/completed main/completed export/completed")
	require.Equal(t, []Ref{{Number: 2, Step: "lint"}, {Number: 3, Step: "main"}}, r.state.History)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, trace string }{
		"a return precedes the static rule of the called step": {
			"main call lint\nlint max\nmain done\nexport done",
			"main/call_pending lint/max_iterations main/completed export/completed",
		},
		"an action precedes a return": {
			"main call lint\nlint jump deep\ndeep says found\nmain done\nexport done",
			"main/call_pending lint/completed deep/completed main/completed export/completed",
		},
		"an action precedes the static rule": {
			"main jump deep\ndeep done", "main/completed deep/completed",
		},
		"calls nest": {
			"main call lint\nlint call deep\ndeep says x\nlint says y\nmain done\nexport done",
			"main/call_pending lint/call_pending deep/completed lint/completed main/completed export/completed",
		},
		"a step calls itself": {
			"main call main\nmain says inner\nmain says outer\nexport done",
			"main/call_pending main/completed main/completed export/completed",
		},
		"a caller that jumps after its return has left the stack": {
			"main call lint\nlint done\nmain jump deep\ndeep done",
			"main/call_pending lint/completed main/completed deep/completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t, graph).play(c.script).ended(Completed, c.trace)
		})
	}
}

// "frames keyed to their caller"
func TestFrames_belongToTheirCallers(t *testing.T) {
	t.Parallel()
	r := start(t, graph).play("main call lint\nlint call deep")
	require.Equal(t, []frame{{Step: "main", Messages: "m1", Iterations: 1}, {Step: "lint", Messages: "m2", Iterations: 1}}, r.state.Stack)
	r.play("deep done")
	require.Equal(t, "lint", r.at.Step)
	require.Equal(t, "m2", r.at.Return.Messages)
	r.play("lint done")
	require.Equal(t, "main", r.at.Step)
	require.Equal(t, "m1", r.at.Return.Messages)
}

// A step reads earlier texts at its start, and not again after a call: its messages
// contain them.
func TestHistory_atTheStart(t *testing.T) {
	t.Parallel()
	r := start(t, Graph{Start: "draft", Steps: []Node{
		{Name: "draft", Next: []Branch{{To: "main"}}},
		{Name: "main", Destinations: []string{"lint"}, History: AllTexts},
		{Name: "lint"},
	}}).play("draft says a frog")
	require.Equal(t, []Ref{{Number: 1, Step: "draft"}}, r.at.History)
	r.play("main call lint")
	require.Empty(t, r.at.History, "lint does not ask for history")
	r.play("lint says clean")
	require.NotNil(t, r.at.Return)
	require.Empty(t, r.at.History)
	r.play("main says written").ended(Completed, "draft/completed main/call_pending lint/completed main/completed")
	require.Len(t, r.state.History, 3)
}

func TestIterations_addUpOverLaunches(t *testing.T) {
	t.Parallel()
	r := start(t, graph).play("main call lint\nlint done\nmain call lint\nlint done")
	require.Equal(t, 2, r.at.Used)
	r.play("main calls-last lint\nlint says late")
	require.Equal(t, "export", r.at.Step, "a caller without iterations has ended")
	r.play("export done").ended(Completed, "main/call_pending lint/completed main/call_pending lint/completed main/call_pending lint/completed main/max_iterations export/completed")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("of depth", func(t *testing.T) {
		t.Parallel()
		g := graph
		g.MaxDepth = 1
		r := start(t, g)
		require.False(t, r.at.Deepest)
		r.play("main call lint")
		require.True(t, r.at.Deepest, "the rules of the step refuse another call")
		r.play("lint call deep").ended(Failed, "main/call_pending lint/call_pending")
	})
	t.Run("of transitions", func(t *testing.T) {
		t.Parallel()
		g := graph
		g.MaxTransitions = 3
		r := start(t, g).play("main jump main\nmain jump main\nmain jump main\nmain jump main")
		r.ended(Failed, "main/completed main/completed main/completed main/completed")
		require.Contains(t, r.done.Reason, "max_transitions")
	})
}

func TestAction_outsideTheGraph(t *testing.T) {
	t.Parallel()
	start(t, graph).play("main jump export").ended(Failed, "main/completed")
	start(t, graph).play("main call nowhere").ended(Failed, "main/call_pending")
}

func TestFailedStep(t *testing.T) {
	t.Parallel()
	t.Run("ends the run without a return", func(t *testing.T) {
		t.Parallel()
		r := start(t, graph).play("main call lint\nlint breaks no line").ended(Failed, "main/call_pending lint/error")
		require.Equal(t, "Network: no line", r.done.Reason)
		require.Len(t, r.state.Stack, 1)
		require.Equal(t, int64(2), r.state.Usage.ModelCalls, "its usage counts")
	})
	t.Run("parks the run", func(t *testing.T) {
		t.Parallel()
		g := graph
		g.Park = true
		r := start(t, g).play("main call lint\nlint breaks no line")
		require.Nil(t, r.done)
		require.True(t, r.state.Held())
		require.Empty(t, r.drain())
		require.ErrorContains(t, r.state.Refuse(Resume{}), "parked")
		require.NoError(t, r.state.Refuse(Retry{}))
		r.state.Step(Retry{})
		r.drain()
		require.Equal(t, "lint", r.at.Step)
		require.Equal(t, "tl2", r.at.ResumeFrom, "a retry continues the step")
		r.play("lint done\nmain done\nexport done").ended(Completed, "main/call_pending lint/error lint/completed main/completed export/completed")
	})
}

// A team decides again in a retry, so that its step has no journal to resume from.
func TestRetry_ofASessionStep(t *testing.T) {
	t.Parallel()
	g := Graph{Start: "decide", Park: true, Steps: []Node{{Name: "decide", Kind: Session}}}
	r := start(t, g).play("decide breaks no line")
	first := r.state.Launches
	r.state.Step(Retry{})
	r.drain()
	require.Equal(t, first+1, r.state.Launches)
	require.Empty(t, r.at.ResumeFrom)
	r.play("decide says yes").ended(Completed, "decide/error decide/completed")
}

func TestPause(t *testing.T) {
	t.Parallel()
	r := start(t, graph)
	l := *r.at
	r.state.Step(Pause{})
	require.Equal(t, []Command{Stop{ID: l.ID}}, r.drain())
	require.Empty(t, r.drain(), "once")
	require.ErrorContains(t, r.state.Refuse(Pause{}), "paused already")
	r.state.Step(Suspended{Launch: l.ID, Number: 1, Token: "tok", Usage: llm.Usage{ModelCalls: 1}})
	require.Empty(t, r.drain())
	r.state.Step(Resume{})
	r.drain()
	require.Equal(t, "tok", r.at.ResumeFrom)
	require.Equal(t, 1, r.at.After)
	require.NotEqual(t, l.ID, r.at.ID)
	require.Equal(t, int64(1), r.state.Usage.ModelCalls)

	// A step may end before the pause reaches it.
	r.state.Step(Pause{})
	r.drain()
	r.line("main says done")
	require.Equal(t, "export", r.state.Current())
	r.state.Step(Resume{})
	r.drain()
	r.play("export done")
	require.NotNil(t, r.done)
}

// The team of a session step is paused, not stopped: its agents keep their progress.
func TestPause_ofASessionStep(t *testing.T) {
	t.Parallel()
	r := start(t, Graph{Start: "decide", Steps: []Node{{Name: "decide", Kind: Session}}})
	id := r.at.ID
	r.state.Step(Pause{})
	require.Equal(t, []Command{Hold{ID: id}}, r.drain())
	require.Empty(t, r.drain(), "once")
	r.state.Step(Resume{})
	require.Equal(t, []Command{Release{ID: id}}, r.drain())
	require.Empty(t, r.drain(), "once")
	r.play("decide says yes").ended(Completed, "decide/completed")
}

func TestHumanMessages(t *testing.T) {
	t.Parallel()
	r := start(t, graph)
	r.state.Step(Said{Text: "use tabs"})
	require.Equal(t, []Command{Keep{Number: 1, Text: "use tabs"}, Ring{Messages: 1}}, r.drain())
	require.Empty(t, r.drain(), "once")
	r.play("main done")
	require.Equal(t, 1, r.at.Messages, "later steps read them at their start")
	require.ErrorContains(t, r.state.Refuse(Said{Text: " "}), "empty")
	require.ErrorContains(t, r.state.Refuse(Said{Text: strings.Repeat("x", 4097)}), "4096")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	r := start(t, graph).play("main call lint")
	l := *r.at
	r.state.Step(Cancel{})
	require.Equal(t, []Command{Stop{ID: l.ID}, Done{Result: Result{Status: Cancelled, Reason: "the run was cancelled"}}}, r.drain())
	r.state.Step(Suspended{Launch: l.ID, Number: 2, Usage: llm.Usage{ModelCalls: 3}})
	require.Empty(t, r.drain())
	require.Equal(t, int64(4), r.state.Usage.ModelCalls, "usage until the cancel counts")
	require.ErrorContains(t, r.state.Refuse(Resume{}), "over")
	require.Len(t, r.state.Stack, 1)
}

func TestStaleEvents_changeNothing(t *testing.T) {
	t.Parallel()
	r := start(t, graph)
	old := r.at.ID
	r.play("main call lint")
	r.state.Step(Ended{Launch: old, Number: 9, Status: Completed})
	require.Empty(t, r.drain())
	require.Equal(t, "lint", r.state.Current())
	require.Equal(t, 1, r.state.Newest)
}

func (*run) usage(modelCalls int64) llm.Usage { return llm.Usage{ModelCalls: modelCalls} }

func (*run) dollars(usd float64) llm.Usage { return llm.Usage{ModelCalls: 1, TotalUSD: &usd} }

// The beginning of an outage is kept over a pause. A reply, a failure and a new run clear it.
func TestSuspended_outage(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_700_000_000, 0).UTC()
	for name, tt := range map[string]struct {
		then func(l Launch) []Event
		want time.Time
	}{
		"a pause":           {func(l Launch) []Event { return pausing(l, since) }, since},
		"a reply":           {func(l Launch) []Event { return pausing(l, time.Time{}) }, time.Time{}},
		"a failure":         {func(l Launch) []Event { return []Event{Broke{Launch: l.ID, Number: 2, Token: "t"}, Retry{}} }, time.Time{}},
		"a run that is cut": {func(Launch) []Event { return []Event{Reopened{Run: "r"}} }, time.Time{}},
		"a cancelled pause": {func(l Launch) []Event { return append(pausing(l, since)[:2], Cancel{}, Reopened{Run: "r"}) }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Graph{Start: "main", Park: true, MaxTransitions: 9, Steps: []Node{{Name: "main", Kind: Agent, MaxIterations: 9}}})
			l := launchOf(t, s.Drain())
			play := func(events []Event) {
				var commands []Command
				for _, e := range events {
					s.Step(e)
					commands = append(commands, s.Drain()...)
				}
				l = launchOf(t, commands)
			}
			play(pausing(l, since))
			require.Equal(t, since, l.AwaySince)
			play(tt.then(l))
			require.Equal(t, tt.want, l.AwaySince)
		})
	}
}

// pausing returns events that suspend and resume a launch whose model's server has been away since
// a given time.
func pausing(l Launch, since time.Time) []Event {
	return []Event{Pause{}, Suspended{Launch: l.ID, Number: 1, Token: "t", AwaySince: since}, Resume{}}
}

// Programs tell the waits and the end of a run by the kinds of its entries.
func TestTimeline_kinds(t *testing.T) {
	t.Parallel()
	kinds := func(s *State) []EntryKind {
		var found []EntryKind
		for _, e := range s.Timeline() {
			if e.Kind != "" {
				found = append(found, e.Kind)
			}
		}
		return found
	}
	r := start(t, Graph{Start: "decide", Park: true, Steps: []Node{{Name: "decide", Kind: Session}}}).play("decide breaks no line")
	r.state.Step(Retry{})
	r.drain()
	launch := r.at.ID
	r.state.Step(Pause{})
	r.state.Step(Cancel{})
	r.drain()
	r.state.Step(Suspended{Launch: launch, Number: 2, Token: "t"})
	require.Equal(t, []EntryKind{EntryParked, EntryPaused, EntryEnded, EntryCancelled}, kinds(r.state))
}
