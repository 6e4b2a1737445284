package start

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

func consensus() sessionflow.Result {
	return sessionflow.Result{
		SessionID: "s1", Status: "consensus", Winner: "agent_b", WinnerLabel: "agent2.1",
		Answer: "Spaces.\x1b[2J\u009b31m\n", AnswerPath: new("s3://bkt/team-a/sessions/s1/final/agent_b/answer.json"),
		Votes: map[string]int{"agent_b": 2}, Rounds: 2, Cost: llm.Usage{InputTokens: 5, ModelCalls: 1},
	}
}

func printed(t *testing.T, c cli.CLI, k runs.Run, r sessionflow.Result) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Queue = &out, &errs, workflows.TaskQueue
	code = stage.Report(&c, sessionReporter{}.PrintResult(t.Context(), &cli.Connection{CLI: &c, Target: cli.Target{Cluster: true}}, k, r))
	return code, out.String(), errs.String()
}

func TestPrintResult_onlyAnswerOnStdout(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, consensus())
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "Spaces.31m\n", stdout, "control sequences are removed")
	require.Contains(t, stderr, "agent_b (agent2.1) by consensus · 2 fresh votes · 2 rounds · 5 tokens, cost unknown")
	require.Contains(t, stderr, "conclave pull s1 DIR --bucket bkt --prefix team-a")
}

func TestPrintResult_presentation(t *testing.T) {
	t.Parallel()
	r := consensus()
	r.Status, r.WinnerLabel, r.Votes = "presented", "agent2.final", map[string]int{}
	code, _, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stderr, "agent_b (agent2.final) by presentation, without a vote · 2 rounds")
}

// The last line says who wrote a presented answer.
func TestPrintResult_presenter(t *testing.T) {
	t.Parallel()
	for by, tt := range map[string]struct{ label, says string }{
		"agent_b": {"agent2.final", "agent_b (agent2.1), presented as agent2.final, by consensus · 2 fresh votes"},
		"agent_a": {"agent1.final", "agent_b (agent2.1), presented by agent_a as agent1.final, by consensus · 2 fresh votes"},
	} {
		r := consensus()
		r.PresentedBy, r.FinalLabel = &by, &tt.label
		_, _, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
		require.Contains(t, stderr, tt.says)
	}
	r := consensus() // in decomposition the presenter wins
	r.Status, r.WinnerLabel, r.PresentedBy, r.FinalLabel = "presented", "agent2.final", &r.Winner, new("agent2.final")
	_, _, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
	require.Contains(t, stderr, "agent_b (agent2.final) by presentation, without a vote")
	data, err := json.Marshal(consensus())
	require.NoError(t, err)
	require.Contains(t, string(data), `"presented_by":null,"final_label":null`)
}

// If every agent failed, the best text is printed, and the exit code tells that nobody has decided.
func TestPrintResult_everyAgentFailed(t *testing.T) {
	t.Parallel()
	r := consensus()
	r.Status, r.Winner, r.WinnerLabel, r.Votes = "failed", "", "", map[string]int{}
	r.Error = &artifact.Error{Type: "AllFailed", Message: "agent_a, agent_b: NoAction: model m called no tool"}
	code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Equal(t, "Spaces.31m\n", stdout)
	require.Contains(t, stderr, "nobody has decided for this: every agent failed")
	require.Contains(t, stderr, "conclave: session s1 failed: agent_a, agent_b: NoAction: model m called no tool\n")
	require.NotContains(t, stderr, "by failed")
	code, stdout, _ = printed(t, cli.CLI{JSON: true}, runs.Run{}, r)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, `"answer": "Spaces.`)
}

// An undecided session says how the team goes on with it.
func TestPrintResult_undecided(t *testing.T) {
	t.Parallel()
	r := consensus()
	r.Status, r.Support = "undecided", &coordination.Support{Share: 2.0 / 3}
	code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{ID: "s1", Workflow: "s1"}, r)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.NotEmpty(t, stdout)
	require.Contains(t, stderr, "undecided: this is the best answer, but only 67 % of the active agents support it; `conclave say s1 TEXT` tells the agents more and `conclave retry s1` has them vote again")
}

func TestPrintResult_outOfTimeOrBudget(t *testing.T) {
	t.Parallel()
	for status, tt := range map[string]struct {
		code int
		says string
	}{
		"timeout": {cli.ExitTimeout, "the session's time ran out: this is the best answer so far; give it more with timeout_settings.orchestrator_timeout_seconds"},
		"budget":  {cli.ExitOK, "the session's budget ran out: this is the best answer so far; give it more with orchestrator.budget"},
	} {
		r := consensus()
		r.Status = status
		code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
		require.Equal(t, tt.code, code)
		require.NotEmpty(t, stdout)
		require.Contains(t, stderr, tt.says)
	}
}

func TestPrintResult_json(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cli.CLI{"json": {JSON: true}, "automation": {Automation: true}} {
		code, stdout, stderr := printed(t, c, runs.Run{}, consensus())
		require.Equal(t, cli.ExitOK, code, name)
		require.Empty(t, stderr, name)
		require.NotContains(t, stdout, "\x1b", name)
		require.NotContains(t, stdout, "\u009b", name)
		var got sessionflow.Result
		require.NoError(t, json.Unmarshal([]byte(stdout), &got), name)
		require.Equal(t, consensus(), got, "the text itself is unchanged")
		if c.Automation {
			require.Equal(t, 1, strings.Count(stdout, "\n"), "on the last line")
		}
	}
}

// lost is a closed pipe.
type lost struct{}

func (lost) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestPrintResult_brokenPipe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cli.CLI{"person": {}, "json": {JSON: true}, "automation": {Automation: true}} {
		var errs bytes.Buffer
		c.Stdout, c.Stderr, c.Queue = lost{}, &errs, workflows.TaskQueue
		code := stage.Report(&c, sessionReporter{}.PrintResult(t.Context(), &cli.Connection{CLI: &c, Target: cli.Target{Cluster: true}}, runs.Run{}, consensus()))
		require.Equal(t, cli.ExitNoAnswer, code, name)
		require.Contains(t, errs.String(), "broken pipe", name)
	}
}

func TestClosedState(t *testing.T) {
	t.Parallel()
	k := runs.Run{ID: "s1", Workflow: "s1", Query: "Why?", Status: "failed"}
	state := closedState(t.Context(), &cli.Connection{}, k, sessionflow.Result{Error: &artifact.Error{Type: workflows.InvalidInput, Message: "no query"}})
	data, err := json.Marshal(state)
	require.NoError(t, err)
	require.Contains(t, string(data), `"session_id":"s1"`)
	require.Contains(t, string(data), `"status":"failed"`)
	require.Contains(t, string(data), `"agents":[]`, "a list for scripts, also if it is not known")
	require.Contains(t, string(data), `"votes":{}`)
	require.Contains(t, string(data), `"error":{"type":"InvalidInput","message":"no query"}`)
}

func TestPrintResult_offlineNote(t *testing.T) {
	t.Parallel()
	for _, c := range []cli.CLI{{}, {JSON: true}, {Automation: true}} {
		_, _, stderr := printed(t, c, runs.Run{Kind: Kind(), Offline: true}, consensus())
		require.Contains(t, stderr, teams.OfflineNote)
	}
}

func TestPrintResult_withoutAnswer(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, sessionflow.Result{
		SessionID: "s1", Status: "failed", Error: &artifact.Error{Type: "NoAnswer", Message: "agent_a: AuthFailed: the key is refused"},
	})
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "conclave: session s1 failed: agent_a: AuthFailed: the key is refused\n")
	require.NotContains(t, stderr, "transcript")

	_, _, stderr = printed(t, cli.CLI{Queue: workflows.TaskQueue}, runs.Run{}, sessionflow.Result{
		SessionID: "s1", Status: "failed", Failed: []coordination.FailedAgent{{ID: "agent_b", Error: coordination.Failure{Type: "NoAction"}}},
		Error: &artifact.Error{Type: "NoAnswer", Message: "agent_b: NoAction: model m called no tool"},
	})
	require.Contains(t, stderr, "`conclave transcript s1 agent_b last` shows what the model said\n")

	code, stdout, stderr = printed(t, cli.CLI{Automation: true}, runs.Run{}, sessionflow.Result{SessionID: "s1", Status: "cancelled"})
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, `"status":"cancelled"`)
	require.Contains(t, stderr, "session s1 was cancelled")
}

func TestPrintResult_timeout(t *testing.T) {
	t.Parallel()
	r := consensus()
	r.Status = "timeout"
	code, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
	require.Equal(t, cli.ExitTimeout, code)
	require.Contains(t, stdout, "Spaces.")
	require.Contains(t, stderr, "time ran out")
}

func TestPrintResult_truncatedAnswer(t *testing.T) {
	t.Parallel()
	r := consensus()
	r.AnswerTruncated = true
	_, stdout, stderr := printed(t, cli.CLI{}, runs.Run{}, r)
	require.Contains(t, stdout, "Spaces.")
	require.Contains(t, stderr, "--bucket")
	require.Contains(t, stderr, *r.AnswerPath)
}

func TestExitCode_status(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int{
		"consensus": 0, "plurality": 0, "presented": 0, "limit": 0, "budget": 0, "finished": 0,
		"undecided": 2, "failed": 2, "cancelled": 2, "running": 2, "": 2,
		"timeout": 3,
	} {
		require.Equal(t, want, sessionExitCode(sessionflow.Result{Status: status}), status)
	}
}

func TestExitCode_refusedInput(t *testing.T) {
	t.Parallel()
	refused := func(kind string) sessionflow.Result {
		return sessionflow.Result{Status: "failed", Error: &artifact.Error{Type: kind}}
	}
	for _, kind := range []string{workflows.InvalidInput, activities.ConfigInvalid, activities.SessionTaken} {
		require.Equal(t, cli.ExitUsage, sessionExitCode(refused(kind)), kind)
	}
	require.Equal(t, cli.ExitNoAnswer, sessionExitCode(refused("NoAnswer")))
}

func TestResultOfASessionThatTemporalEnded(t *testing.T) {
	t.Parallel()
	began := time.Unix(1e9, 0)
	r := sessionReporter{}.NewResult(runs.Run{ID: "s1", Started: began, Closed: began.Add(90 * time.Second)}, "failed", &artifact.Error{Type: "Terminated"})
	require.InDelta(t, 90, r.DurationSeconds, 0)
	require.Equal(t, "s1", r.SessionID)
	require.Equal(t, "failed", r.Status)
	require.Equal(t, "Terminated", r.Error.Type)
	require.NotNil(t, r.Votes, "votes is an object in JSON")
}

// A session that is only started can run in another process, which may have the servers. The
// sandbox is the same for both.
func TestRefuses(t *testing.T) {
	t.Parallel()
	server, sandbox := &activities.LackError{Type: activities.NoServer}, &activities.LackError{Type: activities.NoSandbox}
	require.True(t, preventsStart(server, true))
	require.False(t, preventsStart(server, false))
	require.True(t, preventsStart(sandbox, false))
	require.False(t, preventsStart(nil, true))
}

// The last line for a person counts the votes, and names the failed agents and a broken tie.
func TestTurnout(t *testing.T) {
	t.Parallel()
	failed := []coordination.FailedAgent{
		{ID: "agent_b", Error: coordination.Failure{Type: "AuthFailed"}}, {ID: "agent_c", Error: coordination.Failure{Type: "NoAction"}},
	}
	for _, c := range []struct {
		want string
		of   sessionflow.Result
	}{
		{"", sessionflow.Result{Voters: []string{"agent_a"}, Agents: 1}},
		{"", sessionflow.Result{Status: "presented", Agents: 3}},
		{" · 2 of 3 voted", sessionflow.Result{Status: "consensus", Voters: []string{"agent_a", "agent_b"}, Agents: 3}},
		{" · 0 of 3 voted", sessionflow.Result{Status: "finished", Agents: 3}},
		{" · 1 of 3 voted, 2 failed: agent_b (AuthFailed), agent_c (NoAction)", sessionflow.Result{Voters: []string{"agent_a"}, Agents: 3, Failed: failed}},
		{" · 1 failed: agent_b (AuthFailed)", sessionflow.Result{Status: "presented", Agents: 3, Failed: failed[:1]}},
		{" · an earlier attempt of the team; the last one decided nothing", sessionflow.Result{Earlier: true}},
		{" · a tie of agent_a, agent_b", sessionflow.Result{Tie: []string{"agent_a", "agent_b"}}},
	} {
		require.Equal(t, c.want, describeTurnout(c.of))
	}
}

func TestGround(t *testing.T) {
	t.Parallel()
	votes := map[string]int{"agent_a": 2}
	for want, r := range map[string]sessionflow.Result{
		"by presentation, without a vote":                                        {Status: "presented"},
		"by consensus · 2 fresh votes":                                           {Status: "consensus", Winner: "agent_a", Votes: votes, DecidedBy: coordination.ByVotes},
		"by consensus · 2 fresh votes, a quorum":                                 {Status: "consensus", Winner: "agent_a", Votes: votes, DecidedBy: coordination.ByQuorum},
		"by consensus · 2 fresh votes, a quorum · agent_c cut off by the quorum": {Status: "consensus", Winner: "agent_a", Votes: votes, DecidedBy: coordination.ByQuorum, Cut: []string{"agent_c"}},
		"by consensus · equal first answers, without a vote":                     {Status: "consensus", Winner: "agent_a", DecidedBy: coordination.ByAgreement},
		"finished · without a fresh vote":                                        {Status: "finished", Winner: "agent_a", DecidedBy: coordination.ByForce},
		"undecided · 2 fresh votes":                                              {Status: "undecided", Winner: "agent_a", Votes: votes, DecidedBy: coordination.ByVotes},
	} {
		require.Equal(t, want, describeDecision(r))
	}
	byChecks := sessionflow.Result{Status: "plurality", Winner: "agent_b", Votes: votes, DecidedBy: coordination.ByChecks}
	require.Equal(t, "by plurality · without a fresh vote, ahead by checks", describeDecision(byChecks))
	require.Equal(t, "only 33 % of the active agents support it", describeSupport(sessionflow.Result{Support: &coordination.Support{Share: 1.0 / 3}}))
}
