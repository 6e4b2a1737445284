//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/worker"
	sessionflow "conclave/workflows/session"
)

// useless is an empty reply that costs money.
func useless(model string) reply {
	return reply{body: fmt.Sprintf(`{"id":"x","object":"chat.completion","model":%q,"choices":[]}`, model)}
}

// plain is a reply without a tool call.
func plain(model, text string) reply {
	return reply{body: fmt.Sprintf(`{"id":"x","object":"chat.completion","model":%q,
		"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}]}`, model, text)}
}

// costs returns the costs in the documents of a session: those of the commits, by agent, and of
// each agent's last action.
func (s *site) costs(id string) (committed map[string]llm.Usage, last map[string]llm.Usage) {
	s.t.Helper()
	committed, last = map[string]llm.Usage{}, map[string]llm.Usage{}
	root := artifact.InBucket(id).File("agents/")
	for key, err := range s.store.List(s.t.Context(), root) {
		require.NoError(s.t, err)
		agent, name, _ := strings.Cut(strings.TrimPrefix(key, root), "/")
		switch {
		case strings.HasSuffix(name, "/action.json"):
			c, err := artifact.ReadJSON[artifact.Commit](s.t.Context(), s.store, key)
			require.NoError(s.t, err)
			committed[agent] = committed[agent].Add(c.Usage)
		case name == "last_action.json":
			a, err := artifact.ReadJSON[artifact.LastAction](s.t.Context(), s.store, key)
			require.NoError(s.t, err)
			last[agent] = a.Cost
		}
	}
	return committed, last
}

// The session's cost includes every paid call, however its step ended.
func TestEveryCallIsCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	slow := func() { time.Sleep(1100 * time.Millisecond) }
	denied := []reply{list().during(slow), list().during(slow)}
	for range 12 {
		denied = append(denied, list())
	}
	for name, tt := range map[string]struct {
		b        []reply // of agent_b, whose step is a failure
		sections map[string]any
		failure  string
		calls    int // of agent_b's that were paid for

		rejections int64
	}{
		"refused after two calls":   {[]reply{list(), list(), fails(401)}, nil, "AuthFailed", 2, 0},
		"three invalid replies":     {[]reply{list(), plain("model-b", "I think."), plain("model-b", "Well."), plain("model-b", "So.")}, orchestrator(map[string]any{"text_answers": "never"}), "NoAction", 4, 3},
		"attempts without progress": {[]reply{list(), useless("model-b"), useless("model-b"), useless("model-b"), useless("model-b")}, nil, "BadReply", 5, 0},
		"its time is over": {denied, map[string]any{"timeout_settings": map[string]any{
			"initial_round_timeout_seconds": 1, "round_timeout_grace_seconds": 1,
		}}, "TimeOver", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			model := newTill(t, map[string][]reply{
				"model-a": {list(), useless("model-a"), answer("Answer A."), vote("agent1", "The only one.")},
				"model-b": tt.b,
			})
			id := strings.ReplaceAll(name, " ", "-")
			run := s.begin(t, s.worker(model.teamWith(tt.sections, pair...)), id, sessionflow.Input{Query: "What does it cost?"})
			result := ended(t, run, "consensus")
			cost, ofB := model.all(), model.of("model-b")
			cost.Rejections, ofB.Rejections = tt.rejections, tt.rejections
			require.Equal(t, cost, result.Cost)
			state := s.state(id)
			require.Equal(t, cost, state.Cost)
			require.Equal(t, model.of("model-a"), state.Agents[0].Cost)
			require.Equal(t, ofB, state.Agents[1].Cost)
			require.Equal(t, tt.failure, state.Agents[1].Error.Type)
			if tt.calls > 0 {
				require.EqualValues(t, tt.calls, model.of("model-b").ModelCalls)
			}
			committed, last := s.costs(id)
			require.Equal(t, map[string]llm.Usage{"agent_a": model.of("model-a")}, committed, "the attempt that failed among it")
			require.Equal(t, ofB, last["agent_b"], "a failed step tells its cost")
		})
	}
}

// worker starts a worker with its own queue and this default team.
func (s *site) worker(file string) (queue string) {
	s.t.Helper()
	team, err := config.Parse("team", []byte(file), config.Local)
	require.NoError(s.t, err)
	queue = strings.ReplaceAll(s.t.Name(), "/", "-")
	stop, err := worker.Start(worker.Config{
		Client: s.client, Store: s.store, Scratch: s.t.TempDir(), TaskQueue: queue,
		Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(stop)
	return queue
}

// The cost of a suspended step and of its continuation is counted once, and so is that of a retried
// step.
func TestSuspendedStepsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lost, asked, hold := held(answer("Lost."))
	model := newTill(t, map[string][]reply{
		"model-a": {list(), lost, list(), answer("Answer A."), vote("agent1", "Mine.")},
		"model-b": {list(), fails(401), answer("Answer B."), vote("agent1", "Better.")},
	})
	t.Cleanup(func() { close(hold) })
	queue := s.worker(model.teamWith(orchestrator(map[string]any{"on_agent_failure": "park"}), pair...))
	run := s.begin(t, queue, "held", sessionflow.Input{Query: "What does it cost?"})
	<-asked
	require.Eventually(t, func() bool { return s.state("held").Parked != nil }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, s.update("held", "pause"))
	require.Eventually(t, func() bool { return s.running("held") == 0 }, 20*time.Second, 20*time.Millisecond)
	state := s.state("held")
	spent := model.all()
	spent.Repeated = 1 // the call that the pause cut
	require.Equal(t, spent, state.Cost, "the suspended step and the failed one")
	require.EqualValues(t, 2, state.Cost.ModelCalls)
	require.NoError(t, s.update("held", "resume"))
	require.NoError(t, s.update("held", "retry"))
	result := ended(t, run, "consensus")
	spent = model.all()
	spent.Repeated = 1
	require.Equal(t, spent, result.Cost)
	require.EqualValues(t, 7, result.Cost.ModelCalls)
	require.Equal(t, model.of("model-a").ModelCalls, s.state("held").Agents[0].Cost.ModelCalls)
	committed, _ := s.costs("held")
	require.EqualValues(t, 3, committed["agent_a"].ModelCalls, "the first call is the suspended step's")
}

// between reports whether a step of the session waits for its next attempt.
func (s *site) between(id string) bool {
	d, err := s.client.DescribeWorkflowExecution(s.t.Context(), id, "")
	require.NoError(s.t, err)
	return slices.ContainsFunc(d.PendingActivities, func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && a.GetAttempt() > 1
	})
}

// A step that is cancelled while it waits for its next attempt is ended by the server, which does
// not know its cost. Paid replies before a pause, after it and before the decision count
// nevertheless.
func TestStepsBetweenAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newTill(t, map[string][]reply{
		"model-a": {write("a.md", "half of it"), list(), list(), limited(), read("a.md"), answer("Answer A."), list(), limited()},
	})
	queue := s.worker(model.teamWith(orchestrator(nil), "agent_a"))
	run := s.begin(t, queue, "limited", sessionflow.Input{Query: "What does it cost?"})
	until := func(calls int) {
		t.Helper()
		require.Eventually(t, func() bool { return model.modelServer.calls("model-a") == calls }, 20*time.Second, 20*time.Millisecond)
		require.Eventually(t, func() bool { return s.between("limited") }, 20*time.Second, 20*time.Millisecond)
	}
	until(4)
	require.NoError(t, s.update("limited", "pause"))
	require.Eventually(t, func() bool { return s.running("limited") == 0 }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, model.all(), s.state("limited").Cost, "while it is paused")
	require.NoError(t, s.update("limited", "resume"))
	until(8)
	require.NoError(t, s.update("limited", "finish"))
	result := ended(t, run, "finished")
	require.Contains(t, model.request("model-a", 6), "half of it", "it went on with its files")
	require.EqualValues(t, 6, result.Cost.ModelCalls)
	require.Equal(t, model.all(), result.Cost)
	s.replay("limited", "cancelled_between_attempts")
}

// The calls in the journal of a killed worker are counted, although the worker could not report
// them.
func TestTheCostOfAKilledWorker(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(answer("Lost."))
	model := newTill(t, map[string][]reply{
		"model-a": {list(), list(), lost, answer("Answer A."), vote("agent1", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	run := c.start("run", "--automation", "--session-id", "killed", "--config", c.file("team.yaml", model.team("agent_a")), "What does it cost?")
	<-asked
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "--automation", "killed")
	require.Equal(t, 0, out.code)
	var result sessionflow.Result
	out.lastLine(t, &result)
	require.Equal(t, model.all(), result.Cost)
	require.EqualValues(t, 4, result.Cost.ModelCalls, "the call that was broken off has no bill")
}
