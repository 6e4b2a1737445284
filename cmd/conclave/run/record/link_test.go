package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// at returns a time some seconds after a session's beginning.
func at(seconds int) time.Time { return stage.Began.Add(time.Duration(seconds) * time.Second) }

// answered returns a step of an agent with an answer.
func answered(agent string, number, end int) *Step {
	return &Step{
		Agent: agent, Number: number, Action: string(coordination.NewAnswer), Started: at(end - 1), Ended: at(end), Over: true,
		Answer: &Answer{Label: coordination.Label(int(agent[0]-'a')+1, number)},
	}
}

// voted returns a step of agent a with a vote for b that has seen b's first answer and the
// first message.
func voted(number, end int) *Step {
	return &Step{
		Agent: "a", Number: number, Action: string(coordination.Vote), Started: at(end - 1), Ended: at(end), Over: true,
		Seen: map[string]int{"a": 1, "b": 1}, Heard: 1, heardKnown: true, Vote: &Vote{Vote: artifact.Vote{Target: "b", TargetLabel: "agent2.1"}},
	}
}

// The session's state tells which votes stand and are stale; the documents tell what a stale vote
// has missed. A vote that its agent repeated was stale, unless all agents voted anew.
func TestLink_votes(t *testing.T) {
	t.Parallel()
	later := func(kind, reason string) []coordination.Entry {
		return []coordination.Entry{{Kind: kind, Reason: reason, Time: at(14)}}
	}
	for name, tc := range map[string]struct {
		state    *coordination.VoteView
		steps    []*Step
		events   []coordination.Entry
		messages []step.Message
		want     *Stale
		stands   bool
	}{
		"fresh":                        {state: &coordination.VoteView{Step: 2}, steps: []*Step{answered("b", 2, 20)}, stands: true},
		"stale for an answer":          {state: &coordination.VoteView{Step: 2, Stale: true}, steps: []*Step{answered("c", 1, 30), answered("b", 2, 20)}, want: &Stale{Label: "agent2.2"}, stands: true},
		"stale for a message":          {state: &coordination.VoteView{Step: 2, Stale: true}, messages: []step.Message{{Number: 1}, {Number: 2, Agent: "c"}, {Number: 3, Agent: "a"}}, want: &Stale{Message: 3}, stands: true},
		"a message before an answer":   {state: &coordination.VoteView{Step: 2, Stale: true}, steps: []*Step{answered("b", 2, 20)}, messages: []step.Message{{Number: 2, SaidAt: at(15)}}, want: &Stale{Message: 2}, stands: true},
		"a message after an answer":    {state: &coordination.VoteView{Step: 2, Stale: true}, steps: []*Step{answered("b", 2, 20)}, messages: []step.Message{{Number: 2, SaidAt: at(25)}}, want: &Stale{Label: "agent2.2"}, stands: true},
		"stale for other reasons":      {state: &coordination.VoteView{Step: 2, Stale: true}, want: &Stale{}, stands: true},
		"dropped":                      {},
		"repeated":                     {state: &coordination.VoteView{Step: 3}, steps: []*Step{answered("b", 2, 20), voted(3, 30)}, want: &Stale{Label: "agent2.2"}},
		"replaced by an answer":        {steps: []*Step{answered("a", 3, 30)}, want: &Stale{}},
		"before a presented answer":    {state: &coordination.VoteView{Step: 2}, steps: []*Step{{Agent: "a", Number: 3, Action: "new_answer", Ended: at(30), Answer: &Answer{Final: true}}}, stands: true},
		"a new vote of all":            {steps: []*Step{voted(3, 30)}, events: later(coordination.EntryRevote, "")},
		"a restart of the team":        {steps: []*Step{voted(3, 30)}, events: later(coordination.EntryJudged, "incomplete")},
		"a judge who was content":      {steps: []*Step{voted(3, 30)}, events: later(coordination.EntryJudged, ""), want: &Stale{}},
		"a state without its document": {state: &coordination.VoteView{Step: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vote := voted(2, 10)
			s := &Session{Steps: append([]*Step{vote, answered("b", 1, 5)}, tc.steps...), Events: tc.events, Messages: tc.messages}
			s.Agents = []*Agent{{AgentView: coordination.AgentView{ID: "c"}}, {AgentView: coordination.AgentView{ID: "a", Vote: tc.state}}}
			if len(s.Events) > 0 { // the session counted every action
				for _, p := range s.Steps {
					s.Events = append(s.Events, coordination.Entry{Kind: map[bool]string{true: coordination.EntryVote, false: coordination.EntryAnswer}[p.Vote != nil], Agent: p.Agent, Step: p.Number})
				}
			}
			s.linkSteps()
			require.Equal(t, tc.want, vote.Vote.Stale)
			require.Equal(t, tc.stands, vote.Vote.Stands)
		})
	}
}

// A step is marked by the events about it.
func TestLink_accepts(t *testing.T) {
	t.Parallel()
	for kind, accepted := range map[string]bool{
		coordination.EntryAnswer: true, coordination.EntryVote: true, coordination.EntryStopped: true, coordination.EntryPresented: true, coordination.EntryJudged: true,
		coordination.EntryRefused: false, coordination.EntrySuspended: false, coordination.EntryRestarted: false, coordination.EntryFailed: false, coordination.EntryIgnored: false,
	} {
		p := answered("a", 1, 10)
		s := &Session{Steps: []*Step{p}, Events: []coordination.Entry{{Kind: kind, Agent: "a", Step: 1, Time: at(12)}, {Kind: coordination.EntryAnswer, Agent: "b", Step: 1}}}
		s.linkSteps()
		require.Equal(t, accepted, p.Accepted, kind)
		require.Equal(t, at(10), p.Ended, kind)
	}
}

// A step without an action ends with the event about it.
func TestLink_ends(t *testing.T) {
	t.Parallel()
	for kind, over := range map[string]bool{coordination.EntryFailed: true, coordination.EntryRefused: false, coordination.EntrySuspended: false, coordination.EntryRestarted: false} {
		p := &Step{Agent: "a", Number: 1}
		s := &Session{Steps: []*Step{p}, Events: []coordination.Entry{{Kind: kind, Agent: "a", Step: 1, Time: at(12)}}}
		s.linkSteps()
		require.Equal(t, at(12), p.Ended, kind)
		require.Equal(t, at(12), p.Started, "a step without a claim has no earlier time")
		require.Equal(t, over, p.Over, kind)
		require.False(t, p.Accepted, kind)
	}
	running := &Step{Agent: "a", Number: 1, Started: at(1)}
	s := &Session{Steps: []*Step{running}, Events: []coordination.Entry{{Kind: coordination.EntryInjected, Agent: "a", Step: 1, Label: "agent2.1 agent3.2", Time: at(3)}}}
	s.linkSteps()
	require.Equal(t, []string{"agent2.1", "agent3.2"}, running.Received)
	require.Zero(t, running.Ended)
}

// The votes of other programs name no label; they get that of the newest answer that their agents
// had seen.
func TestLink_labelsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	vote := &Step{Agent: "zed", Number: 1, Action: "vote", Started: at(1), Ended: at(30), Seen: map[string]int{"amy": 2}, Vote: &Vote{Vote: artifact.Vote{Target: "amy"}}}
	steps := []*Step{vote}
	for n, end := range []int{5, 10, 40} {
		p := answered("amy", n+1, end)
		p.Answer.Label = ""
		steps = append(steps, p)
	}
	final := answered("amy", 4, 50)
	final.Answer = &Answer{Label: "agent1.final", Final: true}
	s := &Session{Steps: append(steps, final), Agents: []*Agent{{AgentView: coordination.AgentView{ID: "zed", Vote: &coordination.VoteView{Step: 1, Stale: true}}}, {AgentView: coordination.AgentView{ID: "amy", Number: 1}}}}
	s.linkSteps()
	require.Equal(t, "agent1.2", vote.Vote.TargetLabel)
	require.Equal(t, &Stale{Label: "agent1.3"}, vote.Vote.Stale)
	require.Equal(t, []int{2, 1}, []int{s.Agents[0].Number, s.Agents[1].Number})
	require.Equal(t, "agent1.final", final.Answer.Label)
}
