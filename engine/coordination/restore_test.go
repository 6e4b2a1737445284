package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestRestore_goesOnWithEverythingOnRecord(t *testing.T) {
	t.Parallel()
	used := llm.Usage{InputTokens: 10, ModelCalls: 1}
	answered := func(seq, step int, agent string) Recorded {
		return Recorded{Accepted{Seq: seq, Agent: agent, Step: step, Action: NewAnswer}, Answered{End: End{Step: step, Usage: used}}}
	}
	saw := []Seen{{"a", 1}, {"b", 1}, {"c", 2}}
	s := Restore(team("a", "b", "c"), Lost{
		Ledger: []Recorded{
			answered(1, 1, "a"),
			{Accepted: Accepted{Seq: 2, Action: Say, Message: 1, Text: "be brief"}},
			answered(3, 1, "b"), answered(4, 2, "c"),
		},
		Events:  20,
		Lacking: []Recorded{{Accepted{Agent: "a", Step: 2}, Voted{End: End{Step: 2, Usage: used}, Target: "c", Reason: "short", Seen: saw, Heard: 1}}},
		Ended:   []StepOf{{"c", End{Step: 1, Usage: used}}, {"b", End{Step: 2, Usage: used}}},
		Open:    []OpenStep{{Agent: "b", Step: 3, Token: "old-l7", Seen: saw, Usage: used}, {Agent: "a", Step: 3, Token: "old-l6", Usage: used}},
	})
	require.EqualValues(t, 7, s.Cost().ModelCalls, "includes the usage of a, which has voted, but not yet that of b, which is resumed")
	s.Step(Reopened{Run: "old"})
	commands := s.Drain()
	records := only[Record](commands)
	require.Len(t, records, 1, "the ledger lacks a vote")
	require.Equal(t, Accepted{Seq: 5, Agent: "a", Step: 2, Action: Vote, Target: "c", TargetLabel: "agent3.1", Seen: saw}, records[0].Entry)
	resumed := theLaunch(t, commands)
	require.Equal(t, "b", resumed.Agent)
	require.Equal(t, "old-l7", resumed.ResumeFrom)
	require.True(t, resumed.Uncounted)
	require.Equal(t, 3, resumed.After)
	require.Equal(t, []Shown{{Agent: "a", Number: 1, Label: "agent1.1", Step: 1, Seq: 1}, {Agent: "b", Number: 2, Label: "agent2.1", Step: 1, Seq: 3}, {Agent: "c", Number: 3, Label: "agent3.1", Step: 2, Seq: 4}}, resumed.Shown)
	require.Equal(t, []Action{NewAnswer, Vote}, resumed.Offered)
	entries := s.Timeline()
	require.Equal(t, 21, entries[0].Seq, "the timeline goes on")
	require.Equal(t, EntryVote, entries[0].Kind)
	require.Equal(t, map[string]int{"c": 1}, s.View().Votes)
}

func TestRestore_ofAnAttemptThatBeganAgain(t *testing.T) {
	t.Parallel()
	again := teamWith(func(c *Config) { c.MaxRestarts = 1 }, "a", "b")
	s := Restore(again, Lost{
		Ledger: []Recorded{
			{Accepted{Seq: 1, Agent: "a", Step: 1, Action: NewAnswer}, Answered{End: End{Step: 1}}},
			{Accepted: Accepted{Seq: 2, Agent: "a", Step: 3, Action: NewAnswer, Label: "agent1.final"}},
			{Accepted{Seq: 3, Agent: "b", Step: 2, Action: NewAnswer, Attempt: 2}, Answered{End: End{Step: 2}}},
		},
		Rejected: []StepOf{{"a", End{Step: 4}}},
	})
	require.Equal(t, 2, s.View().Attempt)
	s.Step(Reopened{})
	l := launches(s.Drain())[0]
	require.Equal(t, "a", l.Agent)
	require.Equal(t, 4, l.After)
	require.Equal(t, &RejectedAnswer{Number: 1, Answer: Shown{Agent: "a", Number: 1, Label: "agent1.final", Step: 3}, Agent: "a", Step: 4}, l.Previous)
	require.Equal(t, []Shown{{Agent: "b", Number: 2, Label: "agent2.1", Step: 2, Seq: 3}}, l.Shown, "the answers of the rejected attempt count no more")
}

// restored compares a session with the state that Restore builds from its ledger.
func (s *session) restored(t require.TestingT) {
	lost := Lost{Events: s.state.Events}
	for _, past := range s.oracle.past {
		lost.Rejected = append(lost.Rejected, StepOf{Agent: past.Agent, End: End{Step: past.Step}})
	}
	for i, entry := range s.ledger {
		lost.Ledger = append(lost.Ledger, Recorded{entry, s.accepted[i]})
	}
	other := Restore(s.state.Config, lost)
	require.Equal(t, s.state.Messages, other.Messages)
	require.Equal(t, s.state.Accepted, other.Accepted)
	require.Equal(t, s.state.shown(), other.shown())
	require.Equal(t, s.state.attempt(), other.attempt())
	for i, a := range s.state.Agents {
		require.Equal(t, a.Answers, other.Agents[i].Answers)
		require.Equal(t, a.Newest, other.Agents[i].Newest)
		if a.Ballot != nil {
			require.Equal(t, a.Ballot, other.Agents[i].Ballot)
		}
	}
}

// Recorded evaluations and their cost are counted, and they are not repeated.
func TestRestore_evaluations(t *testing.T) {
	t.Parallel()
	c := teamWith(func(c *Config) { c.Critiques = true }, "a")
	lost := Lost{
		Ledger: []Recorded{{
			Accepted: Accepted{Seq: 1, Agent: "a", Step: 1, Action: NewAnswer, Label: "agent1.1"},
			Event:    Answered{End: End{Step: 1, Usage: llm.Usage{ModelCalls: 1, InputTokens: 10}}},
		}},
		Evaluated: []EvaluationOf{{Agent: "a", Critique: Critique{Step: 1, Verdict: Iterate, Tasks: true}, Usage: llm.Usage{ModelCalls: 1, InputTokens: 7}}},
	}
	s := Restore(c, lost)
	require.EqualValues(t, 17, s.Cost().InputTokens)
	l := theLaunch(t, s.Drain())
	require.Equal(t, Coordinate, l.Purpose)
	require.True(t, l.Critique.Tasks)

	lost.Evaluated = nil
	require.Equal(t, Evaluation, theLaunch(t, Restore(c, lost).Drain()).Purpose)
}
