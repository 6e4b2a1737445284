package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/llm"
)

// Attempts that die without a word have cost what their journal holds, although
// no heartbeat told of it.
func TestRunStep_CostOfAttemptsThatDied(t *testing.T) {
	t.Parallel()
	broken := &llm.Error{Kind: llm.Network, Message: "cut off"}
	f := newFloor(t, calls("list_files", map[string]string{}),
		func(context.Context) (llm.Message, error) { return llm.Message{}, broken })
	_, err := f.run(answering())
	require.ErrorContains(t, err, "cut off", "it would be tried again")

	f.SetHeartbeatDetails(vitals{Fruitless: MaxFruitless, StepFailure: StepFailure{Step: 1}})
	_, err = f.run(answering())
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, NoProgress, failed.Type())
	var detail StepFailure
	require.NoError(t, failed.Details(&detail))
	require.Equal(t, llm.Usage{InputTokens: 200, OutputTokens: 20, ModelCalls: 2}, detail.Usage, "the reply that was of no use, too")
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), f.store, "sessions/s1/agents/agent_a/last_action.json")
	require.NoError(t, err)
	require.Equal(t, detail.Usage, last.Cost)
}
