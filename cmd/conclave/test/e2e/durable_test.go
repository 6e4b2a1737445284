//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	acts "conclave/activities/session"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	sessionflow "conclave/workflows/session"
)

// held is a model's reply that waits: asked is closed by the request, and closing hold releases it.
func held(r reply) (_ reply, asked, hold chan struct{}) {
	asked, hold = make(chan struct{}), make(chan struct{})
	return r.during(func() { close(asked); <-hold }), asked, hold
}

// A worker that is killed with -9 loses only the model call in flight: the next worker has the
// conversation and the files.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(answer("Lost."))
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("plan.md", "half of it"), write("more.md", "the rest"), lost, read("plan.md"), answer("Answer A."), vote("agent1", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	run := c.start("run", "--automation", "--session-id", "killed", "--config", c.file("team.yaml", model.team("agent_a")), "Will it survive?")
	<-asked
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "--automation", "killed")
	require.Equal(t, 0, out.code)
	out.result(t, "consensus")
	require.Equal(t, 6, model.calls("model-a"), "one call is paid for twice")
	require.Contains(t, model.request("model-a", 5), "half of it")

	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "killed", dir).code)
	for name, content := range map[string]string{"plan.md": "half of it", "more.md": "the rest"} {
		data, err := os.ReadFile(filepath.Join(dir, "agents/agent_a/001/workspace", name))
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
	transcript := c.conclave("transcript", "killed", "agent_a", "1")
	require.Equal(t, 0, transcript.code)
	require.Contains(t, transcript.stdout, "plan.md")
}

// Operators pause, reset and end single steps with the Temporal CLI.
func TestOperatorsOfActivities(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"pause", "reset"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			lost, asked, hold := held(answer("Lost."))
			model := newModelServer(t, map[string][]reply{
				"model-a": {write("plan.md", "half of it"), lost, read("plan.md"), answer("Answer A."), vote("agent1", "Mine.")},
			})
			t.Cleanup(func() { close(hold) })
			c := newCLI(t)
			dev := c.start("dev", "--config", c.file("team.yaml", model.team("agent_a")))
			at := address(t, dev)
			activity := func(verb string, more ...string) {
				out := c.temporal(append([]string{"activity", verb, "--address", at, "--workflow-id", how, "--activity-id", "agent_a-l1"}, more...)...)
				require.Equal(t, 0, out.code)
			}
			require.Equal(t, 0, c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session",
				"--workflow-id", how, "--input", `{"query":"Held?"}`).code)
			<-asked
			activity(how)
			if how == "pause" {
				require.Eventually(t, func() bool {
					out := c.temporal("workflow", "describe", "--address", at, "--workflow-id", how, "--output", "json")
					return strings.Contains(out.stdout, "PENDING_ACTIVITY_STATE_PAUSED")
				}, 30*time.Second, 200*time.Millisecond)
				require.Equal(t, 2, model.calls("model-a"), "a paused step asks nothing")
				activity("unpause")
			}
			out := c.temporal("workflow", "result", "--address", at, "--workflow-id", how, "--output", "json")
			require.Contains(t, out.stdout, "consensus")
			require.Equal(t, 5, model.calls("model-a"))
			require.Contains(t, model.request("model-a", 4), "half of it")
			require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
			dev.ends(t)
		})
	}
	for how, args := range map[string][]string{
		"fail":     {"--reason", "by hand"},
		"complete": {"--result", `{"step":1,"action":"new_answer"}`},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			stuck, asked, hold := held(answer("Too late."))
			model := newModelServer(t, map[string][]reply{
				"model-a": {answer("Answer A."), vote("agent1", "The only one.")},
				"model-b": {stuck},
			})
			t.Cleanup(func() { close(hold) })
			c := newCLI(t)
			dev := c.start("dev", "--config", c.file("team.yaml", model.team("agent_a", "agent_b")))
			at := address(t, dev)
			require.Equal(t, 0, c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session",
				"--workflow-id", how, "--input", `{"query":"Stuck?"}`).code)
			<-asked
			require.Equal(t, 0, c.temporal(append([]string{"activity", how, "--address", at, "--workflow-id", how, "--activity-id", "agent_b-l2"}, args...)...).code)
			out := c.temporal("workflow", "result", "--address", at, "--workflow-id", how, "--output", "json")
			require.Contains(t, out.stdout, "consensus")
			var state acts.State
			out = c.conclave("status", "--json", how)
			require.NoError(t, json.Unmarshal([]byte(out.stdout), &state))
			require.EqualValues(t, "failed", state.Agents[1].Status)
			require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
			dev.ends(t)
		})
	}
}

// A workflow that is reset runs its steps again under new numbers; the ledger lists the steps that
// count.
func TestUncachedReset(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "Mine."), vote("agent2", "On second thought.")},
		"model-b": {answer("Answer B."), vote("agent1", "Yes."), vote("agent2", "Mine after all.")},
	})
	stop := s.work(model, pair...)
	t.Cleanup(stop)
	run := s.start("reset")
	var result sessionflow.Result
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, "agent_a", result.Winner)

	// Back to the task that launched the second wave.
	var at int64
	for _, e := range s.history("reset").Events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && strings.HasSuffix(a.ActivityId, "-l3") {
			at = a.WorkflowTaskCompletedEventId
		}
	}
	require.NotZero(t, at)
	reset, err := s.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.stack.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "reset", RunId: run.GetRunID()},
		Reason: "think again", WorkflowTaskFinishEventId: at, RequestId: "again",
	})
	require.NoError(t, err)
	require.NoError(t, s.client.GetWorkflow(t.Context(), "reset", reset.RunId).Get(t.Context(), &result))
	require.Equal(t, "agent_b", result.Winner)

	for _, agent := range pair {
		var v artifact.Vote
		s.read("sessions/reset/agents/"+agent+"/003/vote.json", &v)
		require.Equal(t, "agent_b", v.Target)
		s.read("sessions/reset/agents/"+agent+"/002/vote.json", &v)
		require.Equal(t, "agent_a", v.Target, "the vote is written once")
	}
	ledger, err := session.Ledger(t.Context(), s.store, artifact.InBucket("reset"))
	require.NoError(t, err)
	require.Len(t, ledger, 4)
	for _, e := range ledger[2:] {
		require.Equal(t, reset.RunId, e.Run)
		require.Equal(t, 3, e.Step)
	}
	var final artifact.Answer
	s.read("sessions/reset/final/agent_b/answer.json", &final)
	require.Equal(t, "Answer B.", final.Answer)
}
