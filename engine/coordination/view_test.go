package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

func TestNewFillsDefaults(t *testing.T) {
	t.Parallel()
	s := c.New(c.Config{Agents: []string{"b", "a", "b"}, OnSplit: "coin", OnAgentFailure: "park", MaxRevotes: -1})
	require.Equal(t, c.Config{Agents: []string{"b", "a"}, OnSplit: c.SplitRevote, OnAgentFailure: c.FailureContinue, MaxStepsPerAgent: 12}, s.Config)
	require.Equal(t, 1, s.Protocol)
	require.Len(t, s.Agents, 2)
}

// The view is the state JSON of the public contract, key by key.
func TestViewJSON(t *testing.T) {
	t.Parallel()
	usd := 0.5
	p := start(team("b", "a"))
	require.JSONEq(t, `{"phase":"initial_answers","paused":false,"parked":null,"round":1,"agents":[
		{"id":"b","number":2,"status":"no_action","running":true,"step":0,"answers":0,"latest_label":"","vote":null,"error":null,
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0}},
		{"id":"a","number":1,"status":"no_action","running":true,"step":0,"answers":0,"latest_label":"","vote":null,"error":null,
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0}}],
		"votes":{},"winner":"","events":1,
		"cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0}}`,
		marshal(t, p.state.View()))
	p.batch(p.answer("a"), p.answer("b"))
	vote := p.vote("a", "b").(c.Voted)
	vote.Reason, vote.Usage = "better", llm.Usage{InputTokens: 3, TotalUSD: &usd, ModelCalls: 1}
	p.batch(vote, p.fail("b"))
	require.JSONEq(t, `{"phase":"done","paused":false,"parked":null,"round":2,"agents":[
		{"id":"b","number":2,"status":"failed","running":false,"step":2,"answers":1,"latest_label":"agent2.1","vote":null,
		 "error":{"type":"overloaded","message":"the model was overloaded"},
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0}},
		{"id":"a","number":1,"status":"voted","running":false,"step":2,"answers":1,"latest_label":"agent1.1","error":null,
		 "vote":{"target":"b","target_label":"agent2.1","step":2,"stale":false,"reason":"better"},
		 "cost":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":0.5,"model_calls":1}}],
		"votes":{"b":1},"winner":"b","events":7,
		"cost":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":0.5,"model_calls":1}}`,
		marshal(t, p.state.View()))
}

func TestViewPhases(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("a"))
	require.Equal(t, c.PhasePreparing, p.state.View().Phase)
	p.drain()
	require.Equal(t, c.PhaseInitialAnswers, p.state.View().Phase)
	p.batch(p.vote("a", "a"))
	require.Equal(t, c.PhaseInitialAnswers, p.state.View().Phase, "still nothing to coordinate")
	p.batch(p.answer("a"))
	require.Equal(t, c.PhaseCoordinating, p.state.View().Phase)
	require.Equal(t, c.AgentAnswered, p.state.View().Agents[0].Status)
	p.batch(p.vote("a", "a"))
	require.Equal(t, c.PhaseDone, p.state.View().Phase)
}
