package pipeline

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

// play plays a script against a run with branches. A line names a running step by its branch, as in review/a:lint, and
// says how it ends:
//
//	review/a:lint says fine     it ends with a text
//	review/a:lint breaks        it fails for good
//	review/a:lint calls deep    it calls deep
//	review/a:lint suspended     it ends because of a pause or a join
//	review/a:gate asks          it asks a person: the question is named after its launch, as q-l3
//	approve|deny QUESTION, choose QUESTION N, asked QUESTION …
//	pause, resume, cancel, retry [BRANCH], say [BRANCH] TEXT, reopen
//	runs STEP …                 these steps run, and no others
//	ended STATUS                the run has ended
type play struct {
	t       *testing.T
	state   *State
	running map[string]Launch // by branch and step
	stopped map[string]bool   // by launch
	joins   map[string]int    // joins that were launched, by branch and step
	refused string
}

func forked(t *testing.T, g Graph) *play {
	t.Helper()
	p := &play{t: t, running: map[string]Launch{}, stopped: map[string]bool{}, joins: map[string]int{}}
	for i := range g.Steps {
		if n := &g.Steps[i]; n.MaxIterations == 0 {
			n.MaxIterations = DefaultIterations
		}
		if g.Steps[i].Kind == "" {
			g.Steps[i].Kind = Agent
		}
	}
	if g.MaxTransitions == 0 {
		g.MaxTransitions, g.MaxDepth = 100, 8
	}
	p.state = New(g)
	p.drain()
	return p
}

func (p *play) drain() {
	p.t.Helper()
	data, err := json.Marshal(p.state)
	require.NoError(p.t, err)
	var copied State
	require.NoError(p.t, json.Unmarshal(data, &copied))
	again, err := json.Marshal(&copied)
	require.NoError(p.t, err)
	require.JSONEq(p.t, string(data), string(again), "the state is plain data at any point")
	p.state = &copied
	for _, c := range p.state.Drain() {
		switch c := c.(type) {
		case Launch:
			at := c.Step
			if c.Branch != "" {
				at = c.Branch + ":" + at
			}
			require.NotContains(p.t, p.running, at, "a step runs twice")
			p.running[at] = c
			if c.Join != nil {
				p.joins[at]++
			}
		case Stop:
			p.stopped[c.ID] = true
		case Hold, Release, Ring, Keep, Wait, Done:
		}
	}
}

func (p *play) play(script string) *play {
	p.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
		p.line(strings.TrimSpace(line))
		p.drain()
	}
	return p
}

func (p *play) line(line string) {
	p.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	request := func(e Event) {
		p.refused = ""
		if err := p.state.Refuse(e); err != nil {
			p.refused = err.Error()
		}
		p.state.Step(e)
	}
	switch word {
	case "pause":
		request(Pause{})
	case "resume":
		request(Resume{})
	case "cancel":
		request(Cancel{})
	case "retry":
		request(Retry{Branch: rest})
	case "say":
		branch, text, _ := strings.Cut(rest, " ")
		request(Said{Branch: branch, Text: text})
	case "approve", "deny":
		request(Replied{Question: rest, Allow: new(word == "approve"), Note: "as agreed", By: "ann"})
	case "choose":
		e := Replied{By: "ann"}
		_, err := fmt.Sscan(rest, &e.Question, &e.Option)
		require.NoError(p.t, err)
		request(e)
	case "asked":
		var open []string
		for _, q := range p.state.OpenQuestions() {
			open = append(open, q.ID)
		}
		require.Equal(p.t, rest, strings.Join(open, " "))
	case "alone":
		require.Equal(p.t, rest == "true", p.state.AwaitsPerson())
	case "refused":
		require.Contains(p.t, p.refused, rest)
	case "reopen":
		p.running = map[string]Launch{}
		request(Reopened{Run: "r"})
	case "runs":
		var running []string
		for at := range p.running {
			running = append(running, at)
		}
		slices.Sort(running)
		require.Equal(p.t, rest, strings.Join(running, " "))
	case "stopped":
		var stopped []string
		for launch := range p.stopped {
			stopped = append(stopped, launch)
		}
		slices.Sort(stopped)
		require.Equal(p.t, rest, strings.Join(stopped, " "))
	case "ended":
		require.True(p.t, p.state.Done(), "the run goes on: %v", p.running)
		require.Equal(p.t, rest, strings.TrimSpace(string(p.state.Result.Status)+" "+p.state.Result.Reason))
	default:
		p.end(word, rest, line)
	}
}

func (p *play) end(at, how, line string) {
	p.t.Helper()
	l, runs := p.running[at]
	require.True(p.t, runs, "%s does not run: %s; there are %v", at, line, p.running)
	delete(p.running, at)
	verb, arg, _ := strings.Cut(how, " ")
	require.Equal(p.t, verb == "asks", l.Asks() && verb != "breaks" && verb != "suspended", line)
	e := Ended{Launch: l.ID, Number: l.After + 1, Status: Completed, Iterations: 1, Workspace: l.Workspace, Usage: llm.Usage{ModelCalls: 1}}
	switch verb {
	case "says":
		e.Text, e.Said = arg, true
	case "calls":
		e.Action, e.To, e.Status, e.Messages = Call, arg, CallPending, "m"
	case "jumps":
		e.Action, e.To = Jump, arg
	case "lists": // items for the step each
		n := 0
		_, err := fmt.Sscan(arg, &n)
		require.NoError(p.t, err)
		e.Said, e.Text, e.Lists = true, "a list", []List{{For: "each", Items: n}}
	case "no-list":
		e.Said, e.Text, e.Lists = true, "a list", []List{{For: "each", Why: "its output is no list"}}
	case "conflicts":
		e.Conflicts = strings.Fields(arg)
	case "loses":
		e.Lost = 1
	case "writes":
		e.Workspace = arg
	case "asks":
		q := Question{ID: "q-" + l.ID, Text: "Go on?"}
		if l.Step == "choice" {
			q.Options = []string{"now", "later"}
		}
		p.state.Step(Asked{Launch: l.ID, Question: q})
		return
	case "goes-on":
		require.NotNil(p.t, l.Reply, line)
		e.Approved, e.Text, e.Said = new(l.Reply.Allow), l.Reply.Answer(), true
	case "breaks":
		p.state.Step(Broke{Launch: l.ID, Number: e.Number, Token: "r-" + l.ID, Cause: Failure{"Network", "no line"}, Usage: e.Usage})
		return
	case "suspended":
		p.state.Step(Suspended{Launch: l.ID, Number: e.Number, Token: "r-" + l.ID, Usage: e.Usage})
		return
	default:
		require.Fail(p.t, "no such end", line)
	}
	p.state.Step(e)
}

// reviewers runs two branches, a line of two steps and a single one, and then a report.
func reviewers(change func(n *Node)) Graph {
	n := Node{Name: "review", Kind: Parallel, Branches: []Entrance{{"a", "lint"}, {"b", "audit"}}, StopAtFailure: true, Next: []Branch{{To: "report"}}}
	if change != nil {
		change(&n)
	}
	return Graph{Start: "plan", Steps: []Node{
		{Name: "plan", Next: []Branch{{To: "review"}}},
		n,
		{Name: "lint", Next: []Branch{{To: "fix"}}, Destinations: []string{"deep"}, History: AllTexts},
		{Name: "fix"},
		{Name: "deep"},
		{Name: "audit", History: AllTexts},
		{Name: "report", History: AllTexts},
		{Name: "merge", History: AllTexts},
	}}
}

func each(change func(n *Node)) Graph {
	n := Node{Name: "each", Kind: ForEach, Items: Items{From: "plan"}, Each: "read", AtOnce: 2, StopAtFailure: true, Next: []Branch{{To: "report"}}}
	if change != nil {
		change(&n)
	}
	return Graph{Start: "plan", Steps: []Node{{Name: "plan", Next: []Branch{{To: "each"}}}, n, {Name: "read"}, {Name: "report", History: AllTexts}}}
}

// Each section of the file is a sentence of the rules of branches.
func TestBranches(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/branches.txt")
	require.NoError(t, err)
	for _, section := range strings.Split(string(data), "\n== ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		graph, script, _ := strings.Cut(rest, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := forked(t, scriptedGraph(t, strings.TrimPrefix(graph, "graph: "))).play(script)
			for at, n := range p.joins {
				require.Equal(t, 1, n, "%s joined once", at)
			}
		})
	}
}

// scriptedGraph reads a graph from words such as review any park.
func scriptedGraph(t *testing.T, words string) Graph {
	t.Helper()
	kind, rest, _ := strings.Cut(words, " ")
	options := strings.Fields(rest)
	change := func(n *Node) {
		for _, option := range options {
			switch option {
			case "any":
				n.Any, n.StopAtFailure = true, false
			case "continue":
				n.StopAtFailure = false
			case "losses-to-merge":
				n.Next = []Branch{{FailedAbove: new(0), To: "merge"}, {To: "report"}}
			case "failure-to-merge":
				n.Next = []Branch{{When: Failed, To: "merge"}, {To: "report"}}
			case "conflict-to-merge":
				n.OnConflict = "merge"
			case "one-item":
				n.Items = Items{Count: 1}
			case "park", "finally", "gated", "nested":
			default:
				require.Fail(t, "no such option", option)
			}
		}
	}
	g := reviewers(change)
	if kind == "each" {
		g = each(change)
	}
	if g.Park = slices.Contains(options, "park"); slices.Contains(options, "finally") {
		g.Finally, g.Steps = "tidy", append(g.Steps, Node{Name: "tidy", History: AllTexts})
	}
	gate := Node{Name: "gate", Kind: Approval, Next: []Branch{{Approved: new(true), To: "fix"}, {Approved: new(false), To: "choice"}}}
	switch {
	case slices.Contains(options, "gated"): // branch a asks before it goes on
		g.Steps[2].Next[0].To, g.Steps = "gate", append(g.Steps, gate, Node{Name: "choice", Kind: Approval})
	case slices.Contains(options, "nested"): // branch a forks, and the run does at its end
		g.Steps[1].Branches[0].Step, g.Finally = "inner", "outro"
		g.Steps = append(g.Steps, gate, Node{Name: "choice", Kind: Approval},
			Node{Name: "inner", Kind: Parallel, StopAtFailure: true, Branches: []Entrance{{"x", "lint"}, {"y", "gate"}, {"z", "deep"}}},
			Node{Name: "outro", Kind: Parallel, Branches: []Entrance{{"one", "sweep"}, {"two", "polish"}}}, Node{Name: "sweep"}, Node{Name: "polish"})
	}
	return g
}

// A branch sees the texts up to its fork and its own; after the join its line sees those of all branches, in their order.
func TestBranches_history(t *testing.T) {
	t.Parallel()
	p := forked(t, reviewers(nil)).play("plan says go\nreview/b:audit says fine")
	require.Equal(t, []Ref{{Number: 1, Step: "plan"}}, p.running["review/a:lint"].History)
	p.play("review/a:lint says one\nreview/a:fix says two\nreview says joined")
	var texts []string
	for _, r := range p.running["report"].History {
		texts = append(texts, fmt.Sprintf("%s:%s %d", r.Branch, r.Step, r.Number))
	}
	require.Equal(t, []string{":plan 1", "review/a:lint 1", "review/a:fix 2", "review/b:audit 1", ":review 2"}, texts)
}

func TestBranches_trace(t *testing.T) {
	t.Parallel()
	p := forked(t, reviewers(nil)).play("plan says go\nreview/b:audit says fine")
	data, err := json.Marshal(p.state.Trace)
	require.NoError(t, err)
	var trace []map[string]any
	require.NoError(t, json.Unmarshal(data, &trace))
	require.Nil(t, trace[0]["branch"])
	require.Contains(t, trace[0], "branch")
	require.Equal(t, "review/b", trace[1]["branch"])
	v := p.state.View()
	require.Equal(t, "review", v.Step)
	require.Equal(t, []LaneView{{Branch: "review/a", Step: "lint", Stack: []string{}}}, v.Branches)
}

func TestBranches_limits(t *testing.T) {
	t.Parallel()
	g := reviewers(nil)
	g.MaxSteps = 3
	forked(t, g).play("plan says go\nended error the run entered 3 steps, as many as limits.steps allows")

	g = reviewers(nil)
	g.MaxTransitions, g.MaxDepth = 1, 8
	forked(t, g).play(`
		plan says go
		review/a:lint says fine
		review/a:fix says fine
		review/b:audit says fine
		review says joined
		ended error the run made 1 transitions, as many as max_transitions allows`)
}

// Whatever the order in which branches end, are suspended and cut off, every branch ends once, the join comes once and
// after them, and the usage is that of every launch once.
func TestBranches_anySchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := randomFork(t)
		s := New(g)
		running := map[string]Launch{}
		joined, asked := map[string]bool{}, map[string]bool{}
		var calls int64
		retried := false // which resets the spending of a step
		for moment := 0; !s.Done() || len(running) > 0; moment++ {
			require.Less(t, moment, 2000)
			for _, c := range s.Drain() {
				if l, ok := c.(Launch); ok {
					require.False(t, s.laneOf(l.ID).hasEnded(s), "%s begins after its branch has ended", l.Step)
					if running[l.ID] = l; l.Join != nil {
						n := g.findNode(l.Step)
						require.Len(t, l.Join.Branches, max(len(n.Branches), n.Items.Count))
						for _, j := range l.Join.Branches {
							at := strings.TrimPrefix(l.Branch+"/"+l.Step+"/"+j.Name, "/")
							require.True(t, j.Status != Cancelled || n.Any, "%s is lost", at)
							for _, r := range running {
								require.False(t, j.Status != Cancelled && isWithin(r.Branch, at) && r.ID != l.ID && !cutOff(s, r), "%s joined before %s ended", l.Step, r.Step)
							}
						}
						at := l.Branch + ":" + l.Step
						require.False(t, joined[at] && l.ResumeFrom == "", "%s joins twice", at)
						joined[at] = true
					}
				}
			}
			if s.Done() && len(running) == 0 {
				break
			}
			if open := s.OpenQuestions(); len(open) > 0 && (len(running) == 0 || rapid.IntRange(0, 9).Draw(t, "reply") == 0) {
				q := rapid.SampledFrom(open).Draw(t, "question")
				require.False(t, asked[q.ID], "%s is answered twice", q.ID)
				asked[q.ID] = true
				s.Step(Replied{Question: q.ID, Allow: new(rapid.Bool().Draw(t, "allow"))})
				require.ErrorContains(t, s.Refuse(Replied{Question: q.ID, Allow: new(true)}), "is closed: ")
				continue
			}
			if len(running) == 0 {
				require.True(t, s.Held(), "a run that has neither ended nor a launch")
				if s.Paused {
					s.Step(Resume{})
				} else {
					retried = true
					s.Step(Retry{})
				}
				continue
			}
			if rapid.IntRange(0, 20).Draw(t, "request") == 0 {
				retried = true
				s.Step(rapid.SampledFrom([]Event{Pause{}, Resume{}, Retry{}}).Draw(t, "verb"))
				continue
			}
			ids := make([]string, 0, len(running))
			for id := range running {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			l := running[rapid.SampledFrom(ids).Draw(t, "ends")]
			delete(running, l.ID)
			if l.Asks() {
				s.Step(Asked{Launch: l.ID, Question: Question{ID: "q" + l.ID}})
				continue
			}
			calls++
			s.Step(drawEnd(t, l))
		}
		require.Equal(t, calls, s.Usage.ModelCalls)
		require.Empty(t, s.Left)
		var spent llm.Usage
		for _, n := range g.Steps {
			usage, _ := s.spentOn(n.Name)
			spent = spent.Add(usage)
		}
		require.True(t, retried || spent.ModelCalls == calls, "%d of %d calls", spent.ModelCalls, calls)
	})
}

// drawEnd draws the end of a step.
func drawEnd(t *rapid.T, l Launch) Event {
	usage := llm.Usage{ModelCalls: 1}
	switch kind := rapid.IntRange(0, 9).Draw(t, "how"); {
	case kind == 0:
		return Broke{Launch: l.ID, Number: l.After + 1, Token: "t" + l.ID, Usage: usage, Cause: Failure{"Network", "no line"}}
	case kind < 3:
		return Suspended{Launch: l.ID, Number: l.After + 1, Token: "t" + l.ID, Usage: usage}
	}
	return Ended{Launch: l.ID, Number: l.After + 1, Status: Completed, Said: true, Usage: usage}
}

func cutOff(s *State, l Launch) bool {
	return slices.ContainsFunc(s.Left, func(r launched) bool { return r.Launch.ID == l.ID })
}

// randomFork draws a graph of a line with nested parallel steps and items, without loops.
func randomFork(t *rapid.T) Graph {
	g := Graph{Start: "s0", MaxTransitions: 50, MaxDepth: 8, Park: rapid.Bool().Draw(t, "park")}
	var line func(depth int) string
	line = func(depth int) string {
		first := fmt.Sprint("s", len(g.Steps))
		for n := rapid.IntRange(1, 3).Draw(t, "length"); n > 0; n-- {
			at := len(g.Steps)
			g.Steps = append(g.Steps, Node{Name: fmt.Sprint("s", at), Kind: Agent, MaxIterations: 9, History: AllTexts})
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			if kind == 4 {
				g.Steps[at].Kind = Approval
			}
			if depth > 0 && kind < 2 {
				node := Node{Name: g.Steps[at].Name, Kind: Parallel, MaxIterations: 9, Any: rapid.Bool().Draw(t, "any"), StopAtFailure: rapid.Bool().Draw(t, "stop")}
				for i := range rapid.IntRange(1, 3).Draw(t, "branches") {
					node.Branches = append(node.Branches, Entrance{fmt.Sprint("b", i), line(depth - 1)})
				}
				if kind == 1 {
					node.Kind, node.Any = ForEach, false
					node.Each, node.Branches = node.Branches[0].Step, nil
					node.Items.Count, node.AtOnce = rapid.IntRange(0, 4).Draw(t, "items"), rapid.IntRange(1, 3).Draw(t, "at once")
				}
				g.Steps[at] = node
			}
			if n > 1 {
				g.Steps[at].Next = []Branch{{To: fmt.Sprint("s", len(g.Steps))}}
			}
		}
		return first
	}
	line(2)
	return g
}
