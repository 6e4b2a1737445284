//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

var pair = []string{"agent_a", "agent_b"}

func orchestrator(settings map[string]any) map[string]any {
	return map[string]any{"orchestrator": settings}
}

func list() reply { return reply{tool: "list_files", arguments: map[string]any{}} }

func read(path string) reply {
	return reply{tool: "read_file", arguments: map[string]any{"path": path}}
}

func stop(status, summary string) reply {
	return reply{tool: "stop", arguments: map[string]any{"status": status, "summary": summary}}
}

// memo decodes a key of the session's memo; false if it is missing.
func (s *site) memo(ctx context.Context, id, key string, v any) bool {
	d, err := s.client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return false
	}
	payload, ok := d.GetWorkflowExecutionInfo().GetMemo().GetFields()[key]
	return ok && converter.GetDefaultDataConverter().FromPayload(payload, v) == nil
}

// until waits for a condition of the session. It does not fail the test when it gives up, because
// models call it in other goroutines; a later assertion does.
func until(ok func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !ok() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// rung waits until the doorbell announces the label.
func (s *site) rung(id, label string) func() {
	ctx := s.t.Context()
	return func() {
		until(func() bool {
			var bell coordination.Ring
			if !s.memo(ctx, id, workflows.MemoDoorbell, &bell) {
				return false
			}
			for _, a := range bell.Answers {
				if a.Label == label {
					return true
				}
			}
			return false
		})
	}
}

func (s *site) state(id string) acts.State {
	s.t.Helper()
	value, err := s.client.QueryWorkflow(s.t.Context(), id, "", workflows.StateQuery)
	for tries := 1; tries < 10 && err != nil && strings.Contains(err.Error(), "TMPRL1100"); tries++ {
		// The workflow continued while a worker without it in its cache replayed it
		// (temporalio/sdk-go issue 755); only the query fails.
		value, err = s.client.QueryWorkflow(s.t.Context(), id, "", workflows.StateQuery)
	}
	require.NoError(s.t, err)
	var state acts.State
	require.NoError(s.t, value.Get(&state))
	return state
}

// update sends an update to the session and returns its result.
func (s *site) update(id, name string, args ...any) error {
	s.t.Helper()
	h, err := s.client.UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(s.t.Context(), nil)
}

// Seed 003: the running agent receives the new answer, with its files, and keeps its conversation
// and files.
func TestUncachedInjection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			answer("Answer A."),
			write("notes.md", "mine").during(s.rung("inject", "agent2.2")),
			read("peers/agent2/b.md"), read("notes.md"), vote("agent7", "Nobody."), vote("agent2", "It has everything."),
		},
		"model-b": {answer("Answer B."), write("b.md", "the file of B"), answer("Answer B, improved."), vote("agent2", "Mine.")},
	})
	stop := s.workTeam(model.teamWith(nil, pair...))
	t.Cleanup(stop)
	result := ended(t, s.start("inject"), "consensus")
	require.Equal(t, "agent2.2", result.WinnerLabel)

	told := model.request("model-a", 3)
	require.Contains(t, told, "agent2.2")
	require.Contains(t, told, "Answer B, improved.")
	require.Contains(t, told, "notes.md", "the conversation continues")
	require.Contains(t, model.request("model-a", 4), "the file of B")
	require.Contains(t, model.request("model-a", 5), "mine")
	var v artifact.Vote
	s.read("sessions/inject/agents/agent_a/002/vote.json", &v)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 2}, v.SeenSteps, "the shown answers")
	require.Equal(t, 3, result.Rounds, "no agent voted again")
	require.EqualValues(t, 1, result.Rejections, "the vote for agent7")
	require.Positive(t, result.DurationSeconds)
	s.replay("inject", "injection")
}

// An action without knowledge of the news is withdrawn: the agent reads the news and decides again.
func TestUncachedConfirm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine.").during(s.rung("confirm", "agent2.2")), vote("agent2", "Better now.")},
		"model-b": {answer("Answer B."), answer("Answer B, improved."), vote("agent2", "Mine.")},
	})
	stop := s.workTeam(model.teamWith(nil, pair...))
	t.Cleanup(stop)
	result := ended(t, s.start("confirm"), "consensus")
	require.Equal(t, map[string]int{"agent_b": 2}, result.Votes)
	require.Contains(t, model.request("model-a", 3), "Answer B, improved.")
	require.Equal(t, 3, model.calls("model-a"), "no step was wasted on a stale vote")
	s.replay("confirm", "confirmed")
}

// update_mode restart: the step ends at its next safe point and is launched again with the news,
// its files, and its notes.
func TestUncachedRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	written := make(chan struct{})
	rung, ready := s.rung("restart", "agent2.2"), sync.OnceFunc(func() { close(written) })
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			answer("Answer A."),
			write("memory/short_term/plan.md", "Count twice."), write("draft.md", "half of it"), list().during(func() { ready(); rung() }),
			read("draft.md"), vote("agent2", "Better."),
		},
		"model-b": {answer("Answer B."), answer("Answer B, improved.").during(func() { <-written }), vote("agent2", "Mine.")},
	})
	stop := s.workTeam(model.teamWith(orchestrator(map[string]any{"update_mode": "restart"}), pair...))
	t.Cleanup(stop)
	ended(t, s.start("restart"), "consensus")
	fresh := model.request("model-a", 5)
	require.Contains(t, fresh, "Answer B, improved.")
	require.NotContains(t, fresh, "draft.md", "the conversation is new")
	require.Contains(t, fresh, "Your workspace has the files of your earlier turn")
	require.Contains(t, fresh, `Your notes in memory/short_term/plan.md:\n\nCount twice.`)
	require.Contains(t, model.request("model-a", 6), "half of it")
	var v artifact.Vote
	s.read("sessions/restart/agents/agent_a/003/vote.json", &v)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 2}, v.SeenSteps)
	there, err := s.store.Exists(t.Context(), "sessions/restart/agents/agent_a/002/action.json")
	require.NoError(t, err)
	require.False(t, there, "the step that ended itself keeps its number and has no action")
	s.replay("restart", "restarted")
}

// A human message reaches a running step at its next safe point.
func TestUncachedSay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	asked := make(chan struct{})
	heard := func() {
		close(asked)
		until(func() bool {
			var bell coordination.Ring
			return s.memo(t.Context(), "say", workflows.MemoDoorbell, &bell) && len(bell.Messages) > 0
		})
	}
	model := newModelServer(t, map[string][]reply{
		"model-a": {list().during(heard), answer("Answer A, in French."), vote("agent1", "Fine.")},
	})
	stop := s.workTeam(model.team("agent_a"))
	t.Cleanup(stop)
	run := s.start("say")
	<-asked
	require.NoError(t, s.update("say", "say", map[string]string{"text": "Please answer in French."}))
	require.Error(t, s.update("say", "say", map[string]string{"text": " "}))
	ended(t, run, "consensus")
	require.Contains(t, model.request("model-a", 2), "Please answer in French.")
	require.Contains(t, model.request("model-a", 3), "Please answer in French.", "later steps read the message, too")
	s.replay("say", "said")
}

// A paused session keeps the work of its running steps and continues it.
func TestUncachedPause(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	asked, hold := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			write("plan.md", "half of it"), answer("Lost.").during(func() { close(asked); <-hold }),
			read("plan.md"), answer("Answer A."), vote("agent1", "Fine."),
		},
	})
	t.Cleanup(func() { close(hold) })
	stop := s.workTeam(model.team("agent_a"))
	t.Cleanup(stop)
	run := s.start("pause")
	<-asked
	require.NoError(t, s.update("pause", "pause"))
	asking := time.Now()
	require.Eventually(t, func() bool { return s.running("pause") == 0 }, 10*time.Second, 20*time.Millisecond)
	t.Logf("the running step was suspended after %s", time.Since(asking))
	require.True(t, s.state("pause").Paused)
	require.Error(t, s.update("pause", "pause"), "it is paused already")
	require.NoError(t, s.update("pause", "resume"))
	ended(t, run, "consensus")
	require.Contains(t, model.request("model-a", 4), "half of it", "the file and the conversation are there")
	require.Equal(t, 5, model.calls("model-a"), "one call was cut off, none was repeated")
	s.replay("pause", "paused")
}

// on_agent_failure park: the session waits, visibly, until the failed step is retried.
func TestUncachedParkAndRetry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine.")},
		"model-b": {list(), fails(401), answer("Answer B."), vote("agent1", "Better.")},
	})
	stop := s.workTeam(model.teamWith(orchestrator(map[string]any{"on_agent_failure": "park"}), pair...))
	t.Cleanup(stop)
	run := s.start("park")
	var parked string
	require.Eventually(t, func() bool { return s.memo(t.Context(), "park", workflows.MemoParked, &parked) && parked != "" }, 20*time.Second, 50*time.Millisecond)
	require.Contains(t, parked, "agent_b failed")
	require.Contains(t, parked, "retry")
	state := s.state("park")
	require.NotNil(t, state.Parked)
	require.Error(t, s.update("park", "retry", map[string]string{"agent": "agent_a"}), "it has not failed")
	require.NoError(t, s.update("park", "retry", map[string]string{"agent": "agent_b"}))
	result := ended(t, run, "consensus")
	require.Equal(t, map[string]int{"agent_a": 2}, result.Votes)
	require.Equal(t, 4, model.calls("model-b"), "the reply that was paid for is kept")
	require.Contains(t, model.request("model-b", 3), "list_files")
	s.replay("park", "parked_and_retried")
}

// Seed 001: soft timeout injects wrap-up guidance; hard timeout blocks
// non-terminal tools after the grace period.
func TestUncachedRoundTimeouts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	slow := func() { time.Sleep(1100 * time.Millisecond) }
	model := newModelServer(t, map[string][]reply{
		"model-a": {list().during(slow), list().during(slow), list(), answer("Answer A."), vote("agent1", "Mine.")},
	})
	stop := s.workTeam(model.teamWith(map[string]any{"timeout_settings": map[string]any{
		"initial_round_timeout_seconds": 1, "round_timeout_grace_seconds": 1,
	}}, "agent_a"))
	t.Cleanup(stop)
	ended(t, s.start("slow"), "consensus")
	last := func(n int) string {
		var request struct{ Messages []struct{ Content any } }
		require.NoError(t, json.Unmarshal([]byte(model.request("model-a", n)), &request))
		text, err := json.Marshal(request.Messages[len(request.Messages)-1].Content)
		require.NoError(t, err)
		return string(text)
	}
	require.Contains(t, last(2), "time", "the guidance")
	require.NotEqual(t, last(3), last(4), "calls that do not answer are denied")
	require.Contains(t, last(4), "time")
	s.replay("slow", "round_timeouts")
}

// Seed 001, decomposition: each agent answers its part and stops; the configured presenter joins
// the parts.
func TestUncachedDecomposition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("front.md", "front"), answer("The front."), stop("complete", "The front is there.")},
		"model-b": {answer("The back."), stop("blocked", "No database."), answer("Front and back together.")},
	})
	sections := orchestrator(map[string]any{"coordination_mode": "decomposition", "presenter_agent": "agent_b"})
	sections["subtasks"] = map[string]string{"agent_a": "Build the front.", "agent_b": "Build the back."}
	stop := s.workTeam(model.teamWith(sections, pair...))
	t.Cleanup(stop)
	result := ended(t, s.start("parts"), "presented")
	require.Equal(t, "agent_b", result.Winner)
	require.Equal(t, "Front and back together.", result.Answer)
	require.Contains(t, model.request("model-b", 3), "No database.")
	require.NotContains(t, model.prompts(), "agent_a", "presenters see labels, never agent IDs")
	var halt struct{ Status, Summary string }
	s.read("sessions/parts/agents/agent_b/002/stop.json", &halt)
	require.Equal(t, "blocked", halt.Status)
	var final artifact.Answer
	s.read("sessions/parts/final/agent_b/answer.json", &final)
	require.Equal(t, "agent2.final", final.Label)
	s.replay("parts", "decomposition")
}

// Seed 001: a final answer that fails its evaluation restarts the orchestration, at most
// max_orchestration_restarts times.
func TestUncachedBeginAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	again := reply{tool: "restart_orchestration", arguments: map[string]any{"reason": "It has no numbers.", "instructions": "Give numbers."}}
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine."), answer("Presented A."), again, answer("Answer A with 42."), vote("agent1", "Numbers."), answer("Presented 42.")},
	})
	stop := s.workTeam(model.teamWith(orchestrator(map[string]any{
		"final_answer_strategy": "winner_present", "max_orchestration_restarts": 1,
	}), "agent_a"))
	t.Cleanup(stop)
	result := ended(t, s.start("again"), "consensus")
	require.Equal(t, "Presented 42.", result.Answer)
	require.Contains(t, model.request("model-a", 5), "Give numbers.")
	require.Contains(t, model.request("model-a", 5), "Presented A.", "the answer of the last attempt")
	s.replay("again", "begun_again")
}

// Continuous pacing: a fast agent does not wait for a slow one.
func TestUncachedContinuous(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	waited := false // for agent_c, as rounds would
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent2", "Complete."), vote("agent2", "Still.")},
		"model-b": {answer("Answer B."), vote("agent2", "Mine."), vote("agent2", "Still mine.")},
		"model-c": {answer("Answer C.").during(func() {
			voted := func() bool {
				value, err := s.client.QueryWorkflow(t.Context(), "continuous", "", workflows.StateQuery)
				var state acts.State
				return err == nil && value.Get(&state) == nil && state.Votes["agent_b"] == 2
			}
			until(voted)
			waited = !voted()
		}), vote("agent2", "B.")},
	})
	stop := s.workTeam(model.teamWith(orchestrator(map[string]any{"pacing": "continuous"}), "agent_a", "agent_b", "agent_c"))
	t.Cleanup(stop)
	result := ended(t, s.start("continuous"), "consensus")
	require.Equal(t, map[string]int{"agent_b": 3}, result.Votes)
	require.False(t, waited, "two had voted before the third had answered")
	s.replay("continuous", "continuous")
}
