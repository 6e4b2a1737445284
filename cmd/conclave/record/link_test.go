package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/record/recordtest"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// at returns a time some seconds after a session's beginning.
func at(seconds int) time.Time { return recordtest.Began.Add(time.Duration(seconds) * time.Second) }

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
		Seen: map[string]int{"a": 1, "b": 1}, Heard: 1, heardKnown: true, Vote: &Vote{Target: "b", TargetLabel: "agent2.1"},
	}
}

// A vote becomes stale at the first answer or message that its agent had not seen, unless it was
// replaced before.
func TestLink_stale(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps      []*Step
		events     []coordination.Entry
		messages   []step.Message
		visibility string
		want       *Stale
		replaced   time.Time
	}{
		"nothing new":                  {},
		"an answer":                    {steps: []*Step{answered("b", 2, 20)}, want: &Stale{At: at(20), Label: "agent2.2"}},
		"the earlier of two answers":   {steps: []*Step{answered("c", 1, 30), answered("b", 2, 20)}, want: &Stale{At: at(20), Label: "agent2.2"}},
		"an answer before the vote":    {steps: []*Step{answered("b", 2, 9)}, want: &Stale{At: at(10), Label: "agent2.2"}},
		"its own answer":               {steps: []*Step{answered("a", 3, 20)}, replaced: at(20)},
		"answers nobody sees":          {steps: []*Step{answered("b", 2, 20)}, visibility: "none"},
		"a message to all":             {messages: []step.Message{{Number: 2, SaidAt: at(15)}}, want: &Stale{At: at(15), Message: 2}},
		"a message to it":              {messages: []step.Message{{Number: 2, SaidAt: at(15), Agent: "a"}}, want: &Stale{At: at(15), Message: 2}},
		"a message to another":         {messages: []step.Message{{Number: 2, SaidAt: at(15), Agent: "b"}}},
		"a message that it has heard":  {messages: []step.Message{{Number: 1, SaidAt: at(15)}}},
		"a message before an answer":   {steps: []*Step{answered("b", 2, 20)}, messages: []step.Message{{Number: 2, SaidAt: at(15)}}, want: &Stale{At: at(15), Message: 2}},
		"answers shown late":           {events: []coordination.Entry{{Kind: coordination.EntryRevealed, Time: at(12)}}, want: &Stale{At: at(12)}},
		"answers shown before":         {events: []coordination.Entry{{Kind: coordination.EntryRevealed, Time: at(3)}}},
		"a vote of all anew":           {events: []coordination.Entry{{Kind: coordination.EntryRevote, Time: at(14)}}, steps: []*Step{answered("b", 2, 20)}, replaced: at(14)},
		"a restart of the team":        {events: []coordination.Entry{{Kind: coordination.EntryJudged, Time: at(14), Reason: "incomplete"}}, replaced: at(14)},
		"a judge who was content":      {events: []coordination.Entry{{Kind: coordination.EntryJudged, Time: at(14)}}},
		"stale, then replaced":         {steps: []*Step{answered("b", 2, 20), voted(3, 30)}, want: &Stale{At: at(20), Label: "agent2.2"}, replaced: at(30)},
		"replaced at the same instant": {steps: []*Step{answered("b", 2, 30), voted(3, 30)}, replaced: at(30)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vote := voted(2, 10)
			s := &Session{Steps: append([]*Step{vote, answered("b", 1, 5)}, tc.steps...), Events: tc.events, Messages: tc.messages}
			s.Team.Orchestrator.Visibility = tc.visibility
			if len(s.Events) > 0 { // the session counted every action
				for _, p := range s.Steps {
					s.Events = append(s.Events, coordination.Entry{Kind: map[bool]string{true: coordination.EntryVote, false: coordination.EntryAnswer}[p.Vote != nil], Agent: p.Agent, Step: p.Number})
				}
			}
			s.link()
			require.Equal(t, tc.want, vote.Vote.Stale)
			require.Equal(t, tc.replaced, vote.Vote.Replaced)
		})
	}
}

// The session's state determines which votes stand, even if the documents suggest otherwise.
func TestLink_trustsTheState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stale bool // by the state
		newer bool // by the documents
		want  *Stale
	}{
		"both fresh":              {},
		"both stale":              {stale: true, newer: true, want: &Stale{At: at(20), Label: "agent2.2"}},
		"stale for other reasons": {stale: true, want: &Stale{At: at(10)}},
		"fresh all the same":      {newer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vote := voted(2, 10)
			s := &Session{Steps: []*Step{vote, answered("b", 1, 5)}, State: acts.State{View: coordination.View{Agents: []coordination.AgentView{
				{ID: "a", Vote: &coordination.VoteView{Target: "b", Step: 2, Stale: tc.stale}},
				{ID: "b", Vote: &coordination.VoteView{Target: "b", Step: 7}}, // its documents are missing
				{ID: "c"},
			}}}}
			if tc.newer {
				s.Steps = append(s.Steps, answered("b", 2, 20))
			}
			s.link()
			require.Equal(t, tc.want, vote.Vote.Stale)
			require.Zero(t, vote.Vote.Replaced)
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
		s.link()
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
		s.link()
		require.Equal(t, at(12), p.Ended, kind)
		require.Equal(t, at(12), p.Started, "a step without a claim has no earlier time")
		require.Equal(t, over, p.Over, kind)
		require.False(t, p.Accepted, kind)
	}
	running := &Step{Agent: "a", Number: 1, Started: at(1)}
	s := &Session{Steps: []*Step{running}, Events: []coordination.Entry{{Kind: coordination.EntryInjected, Agent: "a", Step: 1, Label: "agent2.1 agent3.2", Time: at(3)}}}
	s.link()
	require.Equal(t, []string{"agent2.1", "agent3.2"}, running.Received)
	require.Zero(t, running.Ended)
}

// The votes of other programs name no label; they get that of the newest answer that their agents
// had seen.
func TestLink_labelsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	vote := &Step{Agent: "zed", Number: 1, Action: "vote", Started: at(1), Ended: at(30), Seen: map[string]int{"amy": 2}, Vote: &Vote{Target: "amy"}}
	steps := []*Step{vote}
	for n, end := range []int{5, 10, 40} {
		p := answered("amy", n+1, end)
		p.Answer.Label = ""
		steps = append(steps, p)
	}
	final := answered("amy", 4, 50)
	final.Answer = &Answer{Label: "agent1.final", Final: true}
	s := &Session{Steps: append(steps, final), Agents: []*Agent{{AgentView: coordination.AgentView{ID: "zed"}}, {AgentView: coordination.AgentView{ID: "amy", Number: 1}}}}
	s.link()
	require.Equal(t, "agent1.2", vote.Vote.TargetLabel)
	require.Equal(t, &Stale{At: at(40), Label: "agent1.3"}, vote.Vote.Stale)
	require.Equal(t, []int{2, 1}, []int{s.Agents[0].Number, s.Agents[1].Number})
	require.Equal(t, "agent1.final", final.Answer.Label)
}
