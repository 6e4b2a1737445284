//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	sessionflow "conclave/workflows/session"
)

// chatty is a team of two that answers, and then lists its files for ever.
func chatty() map[string][]reply {
	script := map[string][]reply{}
	for _, letter := range []string{"a", "b"} {
		replies := []reply{answer("Answer of " + letter + ".")}
		for range 40 {
			replies = append(replies, list())
		}
		script["model-"+letter] = replies
	}
	return script
}

func budget(limit string, amount any) map[string]any {
	return orchestrator(map[string]any{"budget": map[string]any{limit: amount}})
}

// A token budget ends a session with an answer: no step is launched, running steps are informed and
// end, and each exceeds the budget by at most one call.
func TestTokensRunOut(t *testing.T) {
	t.Parallel()
	const limit, call = 2000, 120 // tokens
	model := newModelServer(t, chatty())
	c := newCLI(t)
	config := c.file("team.yaml", model.teamWith(budget("max_total_tokens", limit), pair...))
	out := c.conclave("run", "--automation", "--config", config, "Will it ever end?")
	require.Equal(t, 0, out.code)
	result := out.result(t, "budget")
	answered := regexp.MustCompile(`answered (agent\d\.\d)`).FindAllStringSubmatch(out.stdout+out.stderr, -1)
	require.Len(t, answered, 2)
	require.Equal(t, answered[1][1], result.WinnerLabel, "without votes the newest answer wins")
	spent := result.Cost.InputTokens + result.Cost.OutputTokens
	require.EqualValues(t, call*(model.calls("model-a")+model.calls("model-b")), spent)
	require.GreaterOrEqual(t, spent, int64(limit-2*call), "it is used")
	require.LessOrEqual(t, spent, int64(limit+2*call))
	require.Contains(t, model.prompts(), "budget", "they were warned")

	out = c.conclave("result", result.SessionID)
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout+out.stderr, "budget")
}

// A budget in dollars, at the price in the operator's file.
func TestDollarsRunOut(t *testing.T) {
	t.Parallel()
	const limit, call = 0.05, (100*10 + 20*100) / 1e6 // dollars
	s := newSite(t)
	model := newModelServer(t, chatty())
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
		"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey,
		"TEMPORAL_ADDRESS="+s.stack.TemporalAddress, "HOUSE_KEY="+houseKey)
	file := c.file("worker.yaml", fmt.Sprintf(`
providers:
  house: {base_url: %s, api_key_env: HOUSE_KEY, price_per_million: {input: 10, output: 100}}
  hotel: {base_url: %[1]s, api_key_env: HOUSE_KEY}
`, newHouse(t, model)))
	w := c.start("worker", "--task-queue", "dollars", "--bucket", s.stack.Bucket, "--worker-config", file)
	w.prints(t, "worker on the task queue")
	team := func(provider string) []byte {
		return fmt.Appendf(nil, `{"agents": [
			{"id": "agent_a", "backend": {"provider": "house", "model": "model-a"}},
			{"id": "agent_b", "backend": {"provider": %q, "model": "model-b"}}],
			"orchestrator": {"budget": {"max_cost_usd": %v}, "disable_injection": true}}`, provider, limit)
	}
	result := ended(t, s.begin(t, "dollars", "dollars", sessionflow.Input{Query: "Will it ever end?", Config: team("house")}), "budget")
	require.NotEmpty(t, result.Answer)
	require.NotNil(t, result.Cost.TotalUSD)
	require.InDelta(t, call*float64(model.calls("model-a")+model.calls("model-b")), *result.Cost.TotalUSD, 1e-9)
	require.GreaterOrEqual(t, *result.Cost.TotalUSD, limit-2*call)
	require.LessOrEqual(t, *result.Cost.TotalUSD, limit+2*call)

	// The limit cannot be enforced without a price.
	calls := model.calls("model-a")
	run, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "unpriced", TaskQueue: "dollars"},
		sessionflow.Type, sessionflow.Input{Query: "For how much?", Config: team("hotel")})
	require.NoError(t, err)
	began := time.Now()
	err = run.Get(t.Context(), &result)
	require.ErrorContains(t, err, "agent agent_b: a limit in dollars is set, but the price of the model model-b is unknown")
	require.ErrorContains(t, err, "price_per_million")
	require.ErrorContains(t, err, activities.ConfigInvalid)
	require.Less(t, time.Since(began), 20*time.Second, "it is not tried again")
	require.Equal(t, calls, model.calls("model-a"), "nothing was paid for")
}

// The local stack is not started.
func TestALimitInDollarsWithoutAPrice(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, nil)
	c := newCLI(t)
	config := c.file("team.yaml", model.teamWith(budget("max_cost_usd", 1.5), pair...))
	for _, args := range [][]string{{"run", "For how much?"}, {"start", "For how much?"}, {"dev"}} {
		out := c.conclave(append(args, "--config", config)...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "agent agent_a: a limit in dollars is set, but the price of the model model-a is unknown")
		require.Contains(t, out.stderr, "or set another limit instead")
	}
	entries, err := os.ReadDir(c.home)
	require.NoError(t, err)
	require.Len(t, entries, 1, "there is the team's file and no data directory")

	out := c.conclave("run", "--offline", "--config", config, "For nothing?")
	require.Equal(t, 0, out.code, "the built-in model costs nothing")
}
