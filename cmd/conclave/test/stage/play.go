package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session"
	"conclave/engine/step"
	"conclave/workflows"
)

// Began is the start time of every simulated session.
var Began = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// Play is a session in progress.
type Play struct {
	t      testing.TB
	Dir    string
	Store  *artifact.Dir
	Layout artifact.Layout
	State  *coordination.State
	Ledger []session.Entry // entries as they were written

	now      time.Time
	running  map[string]*launch
	checking map[string]coordination.Check // running checks by the author of the answer
	events   []coordination.Entry
	decision *coordination.Decision
	query    string
	lines    int                  // number of lines of events.jsonl
	encoded  bytes.Buffer         // content of events.jsonl
	ends     map[string]time.Time // ends of steps, by directory
}

// launch is a running step.
type launch struct {
	coordination.Launch
	number  int
	dir     string
	started time.Time
	seen    map[string]int
	heard   int
	lines   []step.Line
	calls   int64
}

// NewRecord starts a session of a team. The prices and usage of its steps are invented but always
// the same for the same script.
func NewRecord(t testing.TB, query string, c coordination.Config) *Play {
	t.Helper()
	dir := t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	p := &Play{
		t: t, Dir: dir, Store: store, State: coordination.New(c), now: Began, running: map[string]*launch{}, checking: map[string]coordination.Check{}, query: query,
		ends: map[string]time.Time{},
	}
	p.putJSON("session.json", artifact.Session{
		Query: query, Owner: artifact.Owner{WorkflowID: filepath.Base(dir), FirstRunID: "r1"}, CreatedAt: Began,
	})
	agents := []any{}
	for _, id := range c.Agents {
		agents = append(agents, map[string]any{"id": id, "backend": map[string]string{"type": "openai", "model": "gpt-5.2"}})
	}
	orchestrator := map[string]any{"coordination_mode": "voting"}
	if c.Budget.USD > 0 {
		orchestrator["budget"] = map[string]any{"max_cost_usd": c.Budget.USD}
	}
	if c.MinSupport > 0 {
		orchestrator["act_when"] = map[string]any{"min_support": c.MinSupport}
	}
	p.putJSON("config.json", map[string]any{"agents": agents, "orchestrator": orchestrator})
	p.drainCommands()
	return p
}

func (p *Play) putJSON(key string, document any) {
	p.t.Helper()
	data, err := artifact.EncodeJSON(document)
	require.NoError(p.t, err)
	p.writeFile(key, data)
}

// writeFile writes a file without syncing it.
func (p *Play) writeFile(key string, data []byte) {
	p.t.Helper()
	name := filepath.Join(p.Dir, filepath.FromSlash(key))
	require.NoError(p.t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(p.t, os.WriteFile(name, data, 0o600))
}

func (p *Play) drainCommands() {
	p.t.Helper()
	commands := p.State.Drain()
	p.State.Stamp(p.now)
	for _, command := range commands {
		switch c := command.(type) {
		case coordination.Record:
			c.Entry.Time = p.now
			p.Ledger = append(p.Ledger, session.Entry{Run: "r1", Accepted: c.Entry})
			p.putJSON(p.Layout.Ledger(len(p.Ledger)), p.Ledger[len(p.Ledger)-1])
		case coordination.Launch:
			p.launchStep(c)
		case coordination.Check:
			p.checking[c.Answer.Agent] = c
		case coordination.Done:
			p.decision = &c.Decision
		default: // doorbells, cancels and waits have no files
		}
	}
	p.recordState()
}

func (p *Play) launchStep(c coordination.Launch) {
	p.t.Helper()
	l := &launch{Launch: c, number: c.After + 1, started: p.now, seen: map[string]int{}, heard: len(p.State.Messages)}
	if c.Purpose == coordination.Evaluation {
		l.number, l.dir = c.After, p.Layout.Step(c.Agent, c.After, "evaluator/")
	} else {
		l.dir = p.freeDir(l)
	}
	var labels []string
	for _, s := range c.Shown {
		labels = append(labels, s.Label)
		l.seen[s.Agent] = s.Step
	}
	l.addEntry(p.now, loop.Entry{Kind: loop.Opening, Messages: []llm.Message{
		{Role: llm.System, Content: "You are one of several agents."}, {Role: llm.User, Content: p.query},
	}})
	p.running[c.Agent] = l
	p.putJSON(l.dir+"step.json", artifact.Claim{
		Token: "r1." + string(c.ID), SeenSteps: l.seen, Labels: labels, StartedAt: p.now, Agent: c.Agent,
	})
}

// freeDir takes the next step number of the agent and returns the step's directory.
func (p *Play) freeDir(l *launch) string {
	p.t.Helper()
	for {
		there, err := p.Store.Exists(p.t.Context(), p.Layout.Step(l.Agent, l.number, "step.json"))
		require.NoError(p.t, err)
		if !there {
			return p.Layout.Step(l.Agent, l.number, "")
		}
		l.number++
	}
}

func (l *launch) addEntry(at time.Time, e loop.Entry) {
	l.lines = append(l.lines, step.Line{Time: at, Entry: e})
}

func (p *Play) recordState() {
	p.t.Helper()
	last := 0
	if n := len(p.events); n > 0 {
		last = p.events[n-1].Seq
	}
	for _, e := range p.State.Timeline() {
		if e.Seq > last {
			p.events = append(p.events, e)
		}
	}
	for _, e := range p.events[p.lines:] {
		require.NoError(p.t, json.NewEncoder(&p.encoded).Encode(e))
	}
	p.lines = len(p.events)
	p.writeFile("events.jsonl", p.encoded.Bytes())
	status := acts.State{SessionID: filepath.Base(p.Dir), Query: p.query, View: p.State.View(), Status: workflows.Running}
	if d := p.decision; d != nil {
		status.Status, status.DecidedBy, status.Support, status.Tie, status.Cut = string(d.Status), d.DecidedBy(), d.Support, d.Tied, d.Cut
		if d.Winner != "" {
			status.Final = &acts.FinalAnswer{Agent: d.Winner, Label: d.WinnerLabel}
			if d.Final != nil {
				status.Final = &acts.FinalAnswer{Agent: d.Final.Agent, Label: d.Final.Label}
			}
		} else if d.Status == coordination.FailedAll {
			status.Error = &artifact.Error{Type: string(d.Cause), Message: "no agent has an answer"}
		}
	}
	p.putJSON("status.json", status)
}

func (p *Play) advanceClock(seconds float64) {
	p.now = p.now.Add(time.Duration(seconds * float64(time.Second)))
}

// runningStep advances the clock and returns the running step of an agent.
func (p *Play) runningStep(seconds float64, agent string) *launch {
	p.t.Helper()
	p.advanceClock(seconds)
	l := p.running[agent]
	require.NotNil(p.t, l, "%s is not at work; the timeline is %v", agent, p.eventTexts())
	return l
}

func (p *Play) eventTexts() []string {
	var all []string
	for _, e := range p.events {
		all = append(all, e.Text)
	}
	return all
}

// endStep ends a step: it writes usage, transcript and commit.
func (p *Play) endStep(l *launch, kind string, payload any, manifest string) coordination.End {
	p.t.Helper()
	l.calls++
	usd := 0.004 * float64(l.calls+int64(l.number))
	usage := llm.Usage{
		InputTokens: 1500*l.calls + 100*int64(l.number), CachedInputTokens: 700 * (l.calls - 1), OutputTokens: 90 * l.calls, TotalUSD: &usd, ModelCalls: l.calls,
	}
	delete(p.running, l.Agent)
	p.ends[l.dir] = p.now
	if kind != "" {
		arguments, err := json.Marshal(payload)
		require.NoError(p.t, err)
		l.addEntry(p.now, loop.Entry{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, ToolCalls: []llm.ToolCall{
			{ID: "c1", Name: kind, Arguments: string(arguments)},
		}}}, Usage: &usage, Seconds: p.now.Sub(l.started).Seconds()})
		l.addEntry(p.now, loop.Entry{Kind: loop.Results, Action: &loop.Action{Kind: kind, Payload: arguments}})
		p.putJSON(l.dir+"action.json", artifact.Commit{
			Token: "r1." + string(l.ID), Kind: kind, Payload: arguments, Manifest: manifest, SeenSteps: l.seen, Heard: l.heard, Usage: usage,
			StartedAt: l.started, Timestamp: p.now,
		})
	}
	var lines bytes.Buffer
	for _, each := range l.lines {
		require.NoError(p.t, json.NewEncoder(&lines).Encode(each))
	}
	p.writeFile(l.dir+"transcript.jsonl", lines.Bytes())
	return coordination.End{Launch: l.ID, Step: l.number, Usage: usage}
}

func (l *launch) seenSteps() []coordination.Seen {
	var seen []coordination.Seen
	for agent, number := range l.seen {
		seen = append(seen, coordination.Seen{Agent: agent, Step: number})
	}
	slices.SortFunc(seen, func(a, b coordination.Seen) int { return bytes.Compare([]byte(a.Agent), []byte(b.Agent)) })
	return seen
}

// Answer ends the running step of an agent with an answer, after some seconds.
func (p *Play) Answer(seconds float64, agent, text string, files map[string]string) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	label := coordination.Label(l.Number, l.Answers+1)
	if l.Purpose == coordination.Present {
		label = coordination.FinalLabel(l.Number)
	}
	manifest := p.storeFiles(l, files)
	end := p.endStep(l, string(coordination.NewAnswer), map[string]string{"answer": text, "label": label}, manifest)
	p.putJSON(p.Layout.Step(agent, l.number, "answer.json"), artifact.Answer{AgentID: agent, Answer: text, Timestamp: p.now, Label: label})
	p.State.Step(coordination.Answered{
		End: end, Seen: l.seenSteps(), Heard: l.heard, Digest: coordination.Digest{Exact: text + manifest, Normalized: text + manifest},
	})
	p.drainCommands()
}

// Vote ends the running step of an agent with a vote.
func (p *Play) Vote(seconds float64, agent, target, reason string) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	label := ""
	for _, s := range l.Shown {
		if s.Agent == target {
			label = s.Label
		}
	}
	end := p.endStep(l, string(coordination.Vote), map[string]string{"target": target, "target_label": label, "reason": reason}, "")
	p.putJSON(p.Layout.Step(agent, l.number, "vote.json"), artifact.Vote{
		Voter: agent, Target: target, Reason: reason, SeenSteps: l.seen, Timestamp: p.now, TargetLabel: label,
	})
	p.State.Step(coordination.Voted{End: end, Choice: coordination.Choice{Target: target, TargetLabel: label, Reason: reason}, Seen: l.seenSteps(), Heard: l.heard})
	p.drainCommands()
}

// Fail ends the running step of an agent without an action.
func (p *Play) Fail(seconds float64, agent, kind, message string) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	end := p.endStep(l, "", nil, "")
	p.putJSON(p.Layout.Agent(agent, "last_action.json"), artifact.LastAction{
		AgentID: agent, Action: "none", Timestamp: p.now, StepNumber: l.number, DurationSeconds: p.now.Sub(l.started).Seconds(),
		Cost: end.Usage, Error: &artifact.Error{Type: kind, Message: message},
	})
	p.State.Step(coordination.Failed{End: end, Cause: coordination.Failure{Type: kind, Message: message}, Token: "r1." + string(l.ID)})
	p.drainCommands()
}

// Reject adds a rejected reply to the running step of an agent.
func (p *Play) Reject(seconds float64, agent, code, told string) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	l.calls++
	l.addEntry(p.now, loop.Entry{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, Content: "I would rather talk."}}})
	l.addEntry(p.now, loop.Entry{Kind: loop.Rejection, Reason: code, Messages: []llm.Message{{Role: llm.User, Content: told}}})
}

// Tool adds an ordinary tool call to the running step of an agent.
func (p *Play) Tool(seconds float64, agent, name, arguments, result string) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	l.calls++
	id := fmt.Sprintf("t%d", l.calls)
	l.addEntry(p.now, loop.Entry{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, Content: "Let me look.", ToolCalls: []llm.ToolCall{{ID: id, Name: name, Arguments: arguments}}}}})
	l.addEntry(p.now, loop.Entry{Kind: loop.Results, Messages: []llm.Message{{Role: llm.ToolRole, ToolCallID: id, Content: result}}})
}

// Update shows the newest answers of all agents and all messages to the running step of an agent.
func (p *Play) Update(agent string) {
	p.t.Helper()
	l := p.runningStep(0, agent)
	for _, e := range p.Ledger {
		if e.Action == coordination.NewAnswer {
			l.seen[e.Agent] = e.Step
			for i := range l.Shown {
				if l.Shown[i].Agent == e.Agent {
					l.Shown[i].Label = e.Label
				}
			}
		}
	}
	l.heard = len(p.State.Messages)
}

// Say sends a person's message.
func (p *Play) Say(seconds float64, agent, text string) {
	p.t.Helper()
	p.advanceClock(seconds)
	p.State.Step(coordination.Said{Agent: agent, Text: text})
	number := len(p.State.Messages)
	p.putJSON(p.Layout.Message(number), step.Message{Number: number, Agent: agent, Text: text, SaidAt: p.now})
	p.drainCommands()
}

// Event passes another event to the core, after some seconds.
func (p *Play) Event(seconds float64, e coordination.Event) {
	p.t.Helper()
	p.advanceClock(seconds)
	p.State.Step(e)
	p.drainCommands()
}

// Suspend suspends the running step of an agent until the session is resumed.
func (p *Play) Suspend(agent string) {
	p.t.Helper()
	l := p.runningStep(0, agent)
	end := p.endStep(l, "", nil, "")
	p.State.Step(coordination.Suspended{End: end, Token: "r1." + string(l.ID)})
	p.drainCommands()
}

// Decision returns the decision, or nil while the session runs.
func (p *Play) Decision() *coordination.Decision { return p.decision }

// Events returns all events so far.
func (p *Play) Events() []coordination.Entry { return p.events }

// storeFiles stores the files of an answer as in a pulled session, with their manifest. It
// returns the manifest's hash.
func (p *Play) storeFiles(l *launch, files map[string]string) string {
	p.t.Helper()
	if len(files) == 0 {
		return ""
	}
	dir := p.t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(p.t, os.WriteFile(file, []byte(content), 0o600))
	}
	m, hash, err := artifact.OpenWorkingCopy(p.Store, p.Layout, dir, p.t.TempDir()).Seal(p.t.Context())
	require.NoError(p.t, err)
	require.NoError(p.t, m.Tree(nil).Project(p.t.Context(), p.Store, p.Layout, p.Layout.Step(l.Agent, l.number, "workspace")))
	p.putJSON(p.Layout.Step(l.Agent, l.number, "workspace.json"), m)
	return hash
}

func emptyFile() *bytes.Reader { return bytes.NewReader(nil) }
