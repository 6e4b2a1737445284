package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// everything is a Config with all that protocol 2 brought.
func everything(o *c.Config) {
	lead := 0
	o.Mode, o.Pacing, o.Updates, o.DeferUpdates, o.BeforeChecklist, o.UpdatesPerStep = c.Decomposition, c.Continuous, c.Inject, true, true, 2
	o.LeadCap, o.AnswersPerAgent, o.AnswersGlobal, o.DeferVoting, o.SkipVoting = &lead, 1, 2, true, true
	o.Strategy, o.SkipPresentation, o.Presenter, o.MaxRestarts = c.Synthesize, true, "b", 3
	o.Budget, o.OnAgentFailure = c.Budget{USD: 1, Tokens: 10}, c.FailurePark
}

// DESIGN: "State carries protocol, an integer frozen at start and kept over
// continue-as-new; every later change of behaviour is gated on it". Whatever the
// configuration says, protocol 1 knows nothing of what came later.
func TestProtocol1_SwitchesEverythingOff(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{1, 0, -1} {
		s := c.Start(protocol, teamWith(everything, "a", "b"))
		require.Equal(t, 1, s.Protocol)
		want := team("a", "b")
		want.OnAgentFailure, want.Mode, want.Pacing, want.Strategy = c.FailureContinue, c.Voting, c.Rounds, c.Reuse
		require.Equal(t, want, s.Config)
	}
}

// In a session of protocol 1 nothing is rung and nothing but Finish is heard of people.
func TestProtocol1_NoNewCommands(t *testing.T) {
	t.Parallel()
	p := playerOf(c.Start(1, teamWith(everything, "a", "b")))
	for _, l := range launches(p.drain()) {
		require.Equal(t, c.Launch{ID: l.ID, Agent: l.Agent, Number: l.Number, Round: 1, Offered: answerOnly}, l)
	}
	p.batch(p.answer("a"), p.answer("b"))
	require.Empty(t, p.batch(c.Pause{}, c.Said{Text: "well"}, c.TimeShort{}, c.Resume{}))
	require.Equal(t, []c.Command{c.Cancel{ID: "l3"}, c.Cancel{ID: "l4"}, c.Done{Decision: c.Decision{
		Status: c.Timeout, Winner: "b", WinnerLabel: "agent2.1", WinnerStep: 1, Votes: []c.Count{},
	}}}, p.batch(c.TimeUp{}))
}

// "A step ended from outside is launched again with the next wave."
func TestProtocol1_SuspendedStep(t *testing.T) {
	t.Parallel()
	p := playerOf(c.Start(1, team("a", "b")))
	p.drain()
	require.Empty(t, p.batch(p.suspend("a")))
	commands := p.batch(p.answer("b"))
	require.Equal(t, []string{"a", "b"}, launched(commands))
	require.Empty(t, p.last("a").ResumeFrom)
	require.Equal(t, answerOrVote, p.last("a").Offered)
}
