package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// A verb with an unknown key is refused as an update, and noted and ignored as a signal.
func TestVerbs_unknownKey(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	p := newPlay(coordination.Config{}, duo())
	p.at(10, func() {
		p.isRefused(t, workflows.SaySignal, object{"tex": "hello"}, `the input has an unknown key "tex": did you mean text?`)
		p.isRefused(t, workflows.SaySignal, object{"text": "hello", "agnet": "agent_a"}, `unknown key "agnet": did you mean agent?`)
		p.isRefused(t, workflows.SaySignal, "hello", "the input cannot be decoded: it is a string, not an object; give an object with text, agent")
		p.isRefused(t, workflows.RetrySignal, object{"text": "agent_a"}, `unknown key "text"; valid: agent`)
		p.isRefused(t, workflows.PauseSignal, object{"agent": "agent_a"}, `unknown key "agent": no key is accepted; leave it out`)
		p.SignalWorkflow(workflows.PauseSignal, object{"agent": "agent_a"})
		p.SignalWorkflow(workflows.SaySignal, 5)
	})
	p.at(15, func() { p.SignalWorkflow(workflows.SaySignal, object{"text": "for one", "agnet": "agent_a"}) })
	p.at(20, func() {
		require.False(t, p.state(t).Paused)
		require.NotContains(t, p.texts(t), "for one")
		require.Subset(t, p.texts(t), []string{"pause ignored", "say ignored"})
		require.Equal(t, `say: the input has an unknown key "agnet": did you mean agent?`, p.state(t).Ignored, "the last one")
		require.Contains(t, p.details(t), "**Ignored:** the signal say: the input has an unknown key")
		p.SignalWorkflow(workflows.FinishSignal, []string{"now"})
	})
	require.Equal(t, "failed", p.run(t).Status, "finished without an answer")
}
