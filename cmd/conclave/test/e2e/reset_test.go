//go:build e2e

package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// decided is a graph in which a team of one decides, and export writes that down.
const decided = `start: decide
steps:
  - {name: decide, kind: session, config: {agents: [{id: agent_a, backend: {model: model-a, base_url: 'URL/v1'}}], orchestrator: {final_answer_strategy: winner_reuse}}, next: export}
  - {name: export, agent: agent_b, history: true}
`

// moment finds the end of a workflow task in a history; 0 if it has not ended yet.
type moment func(*historypb.History) int64

// scheduled finds the task that scheduled the first activity of the type.
func scheduled(activity string) moment {
	return func(h *historypb.History) int64 {
		for _, e := range h.Events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activity {
				return a.GetWorkflowTaskCompletedEventId()
			}
		}
		return 0
	}
}

// teamBegun finds the task that started the first session of a team.
func teamBegun(h *historypb.History) int64 {
	for _, e := range h.Events {
		if n := e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowTaskCompletedEventId(); n > 0 {
			return n
		}
	}
	return 0
}

// signalled finds the task after the first signal.
func signalled(h *historypb.History) int64 {
	seen := false
	for _, e := range h.Events {
		switch e.EventType {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			seen = true
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			if seen {
				return e.EventId
			}
		}
	}
	return 0
}

// reset resets a run to the time before a workflow task, once that has ended.
func (s *site) reset(run client.WorkflowRun, at moment) client.WorkflowRun {
	s.t.Helper()
	var task int64
	require.Eventually(s.t, func() bool {
		task = at(s.history(run.GetID()))
		return task > 0
	}, 20*time.Second, 20*time.Millisecond)
	reset, err := s.client.ResetWorkflowExecution(s.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: s.stack.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		Reason: "think again", WorkflowTaskFinishEventId: task, RequestId: "again",
	})
	require.NoError(s.t, err)
	return s.client.GetWorkflow(s.t.Context(), run.GetID(), reset.RunId)
}

// After a reset in the step of a team, an undecided question is asked again in a new session, and
// finished work is kept.
func TestUncachedPipelineTeamReset(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		at      moment
		session string // that is new; empty for none
		final   string
	}{
		{name: "team_reset_when_asked", at: scheduled("AskTeam"), session: "-decide-l1-2", final: "B."},
		{name: "team_reset_when_begun", at: teamBegun, session: "-decide-l1-2", final: "B."},
		{name: "team_reset_when_decided", at: scheduled("RunSegment"), final: "A."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			model := newModelServer(t, map[string][]reply{
				"model-a": {answer("A."), vote("agent1", "Mine."), answer("B."), vote("agent1", "Mine, too.")},
				"model-b": {says("Exported."), says("Exported again.")},
			})
			run := s.startPipeline(s.workPipelines(), tt.name, strings.ReplaceAll(model.pipeline(decided), "URL", model.URL))
			var r acts.Result
			require.NoError(t, run.Get(t.Context(), &r))
			require.Equal(t, "A.", r.Trace[0].Text)

			require.NoError(t, s.reset(run, tt.at).Get(t.Context(), &r))
			require.Equal(t, "decide/completed export/completed", traced(r))
			require.Equal(t, tt.final, r.Trace[0].Text)
			require.Equal(t, "Exported again.", r.Final)
			require.Equal(t, 3, r.Trace[0].Number, "after those of the run before the reset")
			require.Equal(t, int64(3), r.Usage.ModelCalls)

			var old artifact.Answer
			s.read("pipelines/"+tt.name+"/steps/001-decide/answer.json", &old)
			require.Equal(t, "A.", old.Answer, "the answer is written once")
			s.read("sessions/"+tt.name+"-decide-l1/final/agent_a/answer.json", &old)
			require.Equal(t, "A.", old.Answer)
			paid := 2
			if tt.session != "" {
				paid = 4
				s.read("sessions/"+tt.name+tt.session+"/final/agent_a/answer.json", &old)
				require.Equal(t, tt.final, old.Answer)
			}
			require.Equal(t, paid, model.calls("model-a"))
			s.replayPipeline(tt.name, tt.name)
		})
	}
}

// A reset while the team works: a reset to before its start begins a second session, and the first
// one continues on its own; a reset to a later time keeps the session.
func TestUncachedPipelineTeamResetAtWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, final string
		at          moment
		second      bool
	}{
		{name: "team_at_work_reset_when_begun", at: teamBegun, second: true, final: "B."},
		{name: "team_at_work_reset_later", at: signalled, final: "A."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			first, asked, hold := held(answer("A."))
			release := sync.OnceFunc(func() { close(hold) })
			script := []reply{first, vote("agent1", "Mine.")}
			if tt.second {
				script = []reply{first, answer("B."), vote("agent1", "Mine, too."), vote("agent1", "Mine.")}
			}
			model := newModelServer(t, map[string][]reply{"model-a": script, "model-b": {says("Exported.")}})
			t.Cleanup(release)
			run := s.startPipeline(s.workPipelines(), tt.name, strings.ReplaceAll(model.pipeline(decided), "URL", model.URL))
			<-asked
			// The signal is invalid here and has no effect.
			require.NoError(t, s.client.SignalWorkflow(t.Context(), tt.name, "", workflows.ResumeSignal, nil))
			again := s.reset(run, tt.at)
			if !tt.second {
				release()
			}
			var r acts.Result
			require.NoError(t, again.Get(t.Context(), &r))
			require.Equal(t, "decide/completed export/completed", traced(r))
			require.Equal(t, tt.final, r.Trace[0].Text)
			s.replayPipeline(tt.name, tt.name)
			if tt.second {
				release()
				var old sessionflow.Result
				require.NoError(t, s.client.GetWorkflow(t.Context(), tt.name+"-decide-l1", "").Get(t.Context(), &old))
				require.Equal(t, "A.", old.Answer)
			}
			require.Equal(t, len(script), model.calls("model-a"))
		})
	}
}
