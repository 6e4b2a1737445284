package session

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// desk is a session of agent_a and agent_b whose runs were cut off.
type desk struct {
	*books
	t      *testing.T
	layout artifact.Layout
	began  time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{books: newBooks(t), t: t, layout: artifact.InBucket("s1"), began: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	team := config.Default()
	a, b := team.Agents[0], team.Agents[0]
	a.ID, b.ID = "agent_a", "agent_b"
	team.Agents = []config.Agent{a, b}
	d.Teams = activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}}
	canonical, err := team.Canonical()
	require.NoError(t, err)
	require.NoError(t, d.store.Put(t.Context(), d.layout.File("config.json"), bytes.NewReader(canonical)))
	require.NoError(t, artifact.PutJSON(t.Context(), d.store, d.layout.File("session.json"), artifact.Session{
		Query: "Why?", ConfigHash: team.Hash(), Owner: artifact.Owner{WorkflowID: "w", FirstRunID: "run"}, CreatedAt: d.began,
	}))
	return d
}

// put creates a document.
func (d *desk) put(key string, document any) {
	d.t.Helper()
	require.NoError(d.t, artifact.CreateJSON(d.t.Context(), d.store, key, document))
}

// claims puts a step with a journal of one call.
func (d *desk) claims(agent string, number int, c artifact.Claim) {
	d.t.Helper()
	c.StartedAt = d.began.Add(time.Duration(number) * time.Minute)
	d.put(d.layout.Step(agent, number, "step.json"), c)
	reply := []step.Line{{Entry: loop.Entry{Kind: loop.Reply, Usage: &llm.Usage{ModelCalls: 1}}}}
	d.put(d.layout.Journal(c.Token, 1), map[string]any{"attempt": 1, "lines": reply})
}

// commits adds the action of a step.
func (d *desk) commits(agent string, number int, kind, payload string) {
	d.t.Helper()
	d.put(d.layout.Step(agent, number, "action.json"), artifact.Commit{
		Kind: kind, Payload: []byte(payload), SeenSteps: map[string]int{"agent_a": 1, "agent_b": 1}, Usage: llm.Usage{ModelCalls: 1},
		Timestamp: d.began.Add(time.Duration(number)*time.Minute + time.Second),
	})
}

// save saves a state by a run after some minutes.
func (d *desk) save(run string, minutes int, core *coordination.State) {
	d.t.Helper()
	require.NoError(d.t, artifact.PutJSON(d.t.Context(), d.store, d.layout.SavedState(run), activities.SavedState[Saved]{
		Format: 3, Run: run, At: d.began.Add(time.Duration(minutes) * time.Minute), Saved: &Saved{Core: core.Outline()},
	}))
}

// load loads the session and returns its agents and the launches with which it goes on.
func (d *desk) load() (Reopening, coordination.View, map[string]coordination.Launch) {
	d.t.Helper()
	r, _, err := d.endedSession(d.t.Context(), ReopenInput{Session: "s1", WorkflowID: "w"})
	require.NoError(d.t, err)
	unclaimed, err := d.unclaimedSteps(d.t.Context(), d.layout, r)
	require.NoError(d.t, err)
	r.Saved.Core.Step(coordination.Reopened{Run: r.Run, Unclaimed: unclaimed})
	launched := map[string]coordination.Launch{}
	for _, c := range r.Saved.Core.Drain() {
		if l, ok := c.(coordination.Launch); ok {
			launched[l.Agent] = l
		}
	}
	return r, r.Saved.Core.View(), launched
}

const answered = `{"answer": "A", "label": "agent1.1"}`

// waved returns the state of a session whose agents have answered and are about to vote.
func waved() *coordination.State {
	core := coordination.New(coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	core.Drain()
	for _, launch := range []coordination.LaunchID{"l1", "l2"} {
		core.Step(coordination.Answered{End: coordination.End{Launch: launch, Step: 1}})
	}
	core.Drain()
	return core
}

// A session that was cut off before its first record goes on from its start: with the steps of the
// first wave and what people have said.
func TestReopen_withoutAState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.claims("agent_a", 1, artifact.Claim{Token: "run-l1"})
	d.commits("agent_a", 1, "new_answer", answered)
	d.put(d.layout.Message(1), step.Message{Number: 1, Text: "Be brief."})
	r, view, launched := d.load()
	require.Equal(t, "run", r.Run)
	require.Equal(t, d.began, r.Saved.Prepared.CreatedAt)
	require.Equal(t, 1, view.Messages)
	require.Equal(t, 1, view.Agents[0].Answers)
	require.EqualValues(t, 1, view.Cost.ModelCalls)
	require.Empty(t, launched["agent_b"].ResumeFrom, "its step had claimed no number")
	require.NotEmpty(t, launched["agent_b"].ID)
}

// A state catches up with the ends of its running steps and with steps that it does not know.
func TestReopen_catchesUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save("run", 1, waved())
	d.claims("agent_a", 2, artifact.Claim{Token: "run-l3"})
	d.commits("agent_a", 2, "vote", `{"target": "agent_b", "target_label": "agent2.1", "reason": "good"}`)
	d.claims("agent_b", 2, artifact.Claim{Token: "run-l4"})                                         // suspended; the next one does not count it
	d.claims("agent_b", 3, artifact.Claim{Token: "run-l5", ResumeFrom: "run-l4"})                   // suspended; the next one counts it
	d.claims("agent_b", 4, artifact.Claim{Token: "next-l6", ResumeFrom: "run-l5", Uncounted: true}) // the last one is left open
	_, view, launched := d.load()
	require.Equal(t, "agent_b", view.Agents[0].Vote.Target)
	require.Equal(t, 4, view.Agents[1].Step)
	require.EqualValues(t, 2, view.Cost.ModelCalls, "the vote, and the step that no other counts")
	require.Len(t, launched, 1)
	require.Equal(t, "next-l6", launched["agent_b"].ResumeFrom)
	require.True(t, launched["agent_b"].Uncounted)
	require.Equal(t, []coordination.Action{coordination.NewAnswer, coordination.Vote}, launched["agent_b"].Offered)
}

// A step whose transcript is stored has ended, although its run was cut off before it recorded that: its journal
// may be gone, so it counts, and the step that goes on with it does not count it again.
func TestReopen_countsACutStep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save("run", 1, waved())
	d.put(d.layout.Step("agent_a", 2, "step.json"), artifact.Claim{Token: "run-l3", StartedAt: d.began})
	reply := step.Line{Entry: loop.Entry{Kind: loop.Reply, Usage: &llm.Usage{ModelCalls: 1}}}
	line, err := json.Marshal(reply)
	require.NoError(t, err)
	require.NoError(t, d.store.Create(t.Context(), d.layout.Step("agent_a", 2, "transcript.jsonl"), line))
	_, view, launched := d.load()
	require.EqualValues(t, 1, view.Cost.ModelCalls)
	require.Equal(t, "run-l3", launched["agent_a"].ResumeFrom)
	require.False(t, launched["agent_a"].Uncounted)
}

// A commit that a reopened session counts has its documents, although its attempt has died before it wrote them.
func TestReopen_finishesCommits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.claims("agent_a", 1, artifact.Claim{Token: "run-l1"})
	d.commits("agent_a", 1, "new_answer", answered)
	r, _, _ := d.load()
	require.NoError(t, d.finishCommits(t.Context(), d.layout, d.Teams.Named[activities.DefaultTeam], r.counted))
	a, err := artifact.ReadJSON[artifact.Answer](t.Context(), d.store, d.layout.Step("agent_a", 1, "answer.json"))
	require.NoError(t, err)
	require.Equal(t, "A", a.Answer)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), d.store, d.layout.Agent("agent_a", "last_action.json"))
	require.NoError(t, err)
	require.Equal(t, "new_answer", string(last.Action))
}

// Steps of a run that a reset has replaced do not count, whatever they did later.
func TestReopen_afterAReset(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save("run", 1, waved())
	d.save("reset", 2, waved())
	d.claims("agent_a", 2, artifact.Claim{Token: "run-l3"})
	d.commits("agent_a", 2, "vote", `{"target": "agent_a", "target_label": "agent1.1", "reason": "mine"}`)
	d.claims("agent_a", 3, artifact.Claim{Token: "reset-l3"})
	r, view, launched := d.load()
	require.Equal(t, "reset", r.Run)
	require.Nil(t, view.Agents[0].Vote)
	require.Equal(t, "reset-l3", launched["agent_a"].ResumeFrom)
}

// A presented answer whose launch the state lacks is adopted by the next presenter.
func TestReopen_ofAFinale(t *testing.T) {
	t.Parallel()
	core := coordination.New(coordination.Config{Agents: []string{"agent_a", "agent_b"}, Strategy: "winner_present"})
	core.Drain()
	for _, launch := range []coordination.LaunchID{"l1", "l2"} {
		core.Step(coordination.Answered{End: coordination.End{Launch: launch, Step: 1}})
	}
	core.Drain()
	d := newDesk(t)
	d.save("run", 1, core)
	for agent, launch := range map[string]string{"agent_a": "l3", "agent_b": "l4"} {
		d.claims(agent, 2, artifact.Claim{Token: "run-" + launch})
		d.commits(agent, 2, "vote", `{"target": "agent_a", "target_label": "agent1.1", "reason": "good"}`)
	}
	d.claims("agent_a", 3, artifact.Claim{Token: "run-l5"})
	d.commits("agent_a", 3, "new_answer", `{"answer": "Presented.", "label": "agent1.final"}`)
	_, _, launched := d.load()
	require.Equal(t, coordination.Present, launched["agent_a"].Purpose)
	require.Equal(t, "run-l5", launched["agent_a"].ResumeFrom)
}
