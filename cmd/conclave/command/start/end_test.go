package start

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

// A failed step is recorded as the agent's last action, and keeps its older answer
// visible. A later launch continues it if its fault can be repaired.
func TestStep_fails(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {
		answers("The older one."),
		writes("plan.md", "# Plan\n"), refusesStep(http.StatusUnauthorized), votes("agent1"),
	}})
	file := s.agent(m, "agent_a", "")
	code, _, _ := s.steps(file)
	require.Equal(t, cli.ExitOK, code)

	code, last, stderr := s.steps(file)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stderr, "agent_a took no action")
	require.Contains(t, stderr, "the same command continues step 2")
	require.Equal(t, "none", last.Action)
	require.Equal(t, 2, last.StepNumber)
	require.Nil(t, last.AnswerText)
	require.NotEmpty(t, last.Error.Type)
	require.NotEmpty(t, last.Error.Message)
	require.EqualValues(t, 1, last.Cost.ModelCalls)
	var there seedAction
	s.read("agents/agent_a/last_action.json", &there)
	require.Equal(t, "none", there.Action)
	_, stdout, _ := s.checks("d", "")
	require.Contains(t, stdout, `"latest_label": "agent1.1"`)

	code, last, _ = s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 2, last.StepNumber)
	require.Equal(t, "agent_a", *last.VoteTarget)
}

// A step whose model took no valid action is final: the next launch starts a new one.
func TestStep_withoutAction(t *testing.T) {
	s := newStepShell(t)
	nonsense := votes("agent9")
	m := newScripted(t, map[string][]said{"agent_a": {answers("One."), nonsense, nonsense, nonsense, votes("agent1")}})
	file := s.agent(m, "agent_a", "")
	code, _, _ := s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	code, last, stderr := s.steps(file)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Equal(t, "NoAction", last.Error.Type)
	require.NotContains(t, stderr, "--fresh")
	require.FileExists(t, "d/agents/agent_a/002/transcript.jsonl")
	code, last, _ = s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 3, last.StepNumber)
}

// The files of a step without an action are kept. The next launch begins with them, unless it is
// fresh.
func TestStep_partialFiles(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		s := newStepShell(t)
		nonsense := votes("agent9")
		m := newScripted(t, map[string][]said{"agent_a": {
			writes("plan.md", "# Plan\n"), nonsense, nonsense, nonsense, writes("more.md", "x"), answers("One."),
		}})
		file := s.agent(m, "agent_a", "")
		code, last, stderr := s.steps(file)
		require.Equal(t, cli.ExitNoAnswer, code)
		partial, err := filepath.Abs("d/agents/agent_a/001/partial")
		require.NoError(t, err)
		require.Equal(t, partial, *last.PartialPath)
		require.Contains(t, stderr, *last.PartialPath)
		content, err := os.ReadFile("d/agents/agent_a/001/partial/plan.md")
		require.NoError(t, err)
		require.Equal(t, "# Plan\n", string(content))

		flags := []string{}
		if fresh {
			flags = append(flags, "--fresh")
		}
		code, last, stderr = s.steps(file, flags...)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Equal(t, 2, last.StepNumber)
		require.Nil(t, last.PartialPath)
		require.FileExists(t, "d/agents/agent_a/002/workspace/more.md")
		if fresh {
			require.NoFileExists(t, "d/agents/agent_a/002/workspace/plan.md")
		} else {
			require.FileExists(t, "d/agents/agent_a/002/workspace/plan.md")
			require.Contains(t, m.prompt("agent_a"), "the files of your earlier turn")
		}
	}
}

// --fresh keeps the files of the step that it does not continue.
func TestStep_freshLeavesFiles(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {writes("plan.md", "# Plan\n"), refusesStep(http.StatusUnauthorized), answers("One.")}})
	file := s.agent(m, "agent_a", "")
	code, _, _ := s.steps(file)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.NoDirExists(t, "d/agents/agent_a/001/partial", "it can be continued")
	code, last, stderr := s.steps(file, "--fresh")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 2, last.StepNumber)
	require.FileExists(t, "d/agents/agent_a/001/partial/plan.md")
	require.FileExists(t, "d/agents/agent_a/001/transcript.jsonl")
	require.NoFileExists(t, "d/agents/agent_a/002/workspace/plan.md")
}

// orchestrator_timeout_seconds bounds the step.
func TestStep_timesOut(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {writes("plan.md", "# Plan\n"), hanging(func() {}), answers("In time.")}})
	file := s.agent(m, "agent_a", "timeout_settings: {orchestrator_timeout_seconds: 1}")
	code, last, stderr := s.steps(file)
	require.Equal(t, cli.ExitTimeout, code, stderr)
	require.Equal(t, "none", last.Action)
	require.Equal(t, "Timeout", last.Error.Type)
	require.Contains(t, stderr, "orchestrator_timeout_seconds")
	code, last, _ = s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 1, last.StepNumber)
}

// Limits of answers count all recorded steps.
func TestStep_limits(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("One."), votes("agent1"), votes("agent1")}})
	const limits = "orchestrator: {max_new_answers_per_agent: 1}"
	file := s.agent(m, "agent_a", limits)
	for _, want := range []string{"new_answer", "vote"} {
		code, last, stderr := s.steps(file)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Equal(t, want, last.Action)
	}
	require.Contains(t, m.prompt("agent_a"), "New answers are not open to you in this turn.")

	s.step("d/agents/agent_b/001/step.json", `{"token": "x"}`)
	file = s.agent(m, "agent_a", "orchestrator: {max_new_answers_per_agent: 1, defer_voting_until_all_answered: true}")
	code, last, stderr := s.steps(file)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Equal(t, "none", last.Action)
	require.Equal(t, "NothingOffered", last.Error.Type)
	require.Contains(t, stderr, "can neither answer nor vote now")
	require.Equal(t, 2, m.calls("agent_a"))
	var there seedAction
	s.read("agents/agent_a/last_action.json", &there)
	require.Equal(t, "none", there.Action)
}

// Limits count all recorded steps and their cost. A step without allowance continues
// when the budget is raised.
func TestStep_allowance(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {
		answers("One."), writes("plan.md", "# Plan\n"), writes("more.md", "# More\n"), answers("Two, and better."), votes("agent1"),
	}})
	budget := func(tokens int) string {
		return s.agent(m, "agent_a", fmt.Sprintf("orchestrator: {max_steps_per_agent: 2, budget: {max_total_tokens: %d}}", tokens))
	}
	code, _, stderr := s.steps(budget(300)) // 120 each
	require.Equal(t, cli.ExitOK, code, stderr)
	for range 2 { // it costs nothing to ask again
		code, last, stderr := s.steps(budget(300))
		require.Equal(t, cli.ExitNoAnswer, code)
		require.Equal(t, "BudgetSpent", last.Error.Type)
		require.Contains(t, last.Error.Message, "orchestrator.budget")
		require.Contains(t, stderr, "with a higher budget the same command continues step 2")
		require.Equal(t, 3, m.calls("agent_a"))
	}
	code, last, _ := s.steps(budget(1000))
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 2, last.StepNumber)

	code, last, stderr = s.steps(budget(1000))
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Equal(t, "NothingOffered", last.Error.Type)
	require.Contains(t, stderr, "orchestrator.max_steps_per_agent is 2")
	require.Equal(t, 4, m.calls("agent_a"))
	code, stdout, _ := s.Run("step", "--check", "--session-dir", "d", "--config", "agent_a.yaml")
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, `"next": []`)
}

// An unwritable directory is a usage error, before any model call.
func TestStep_unwritableDirectory(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("One.")}})
	file := s.agent(m, "agent_a", "")
	for _, name := range []string{"agents/agent_a/last_action.json", ".conclave-locks", "blobs"} {
		require.NoError(t, os.MkdirAll("d/"+name, 0o755))
		if filepath.Dir(name) == "." {
			require.NoError(t, os.Remove("d/"+name))
			require.NoError(t, syscall.Mkfifo("d/"+name, 0o644))
		}
		code, _, stderr := s.steps(file)
		require.Equal(t, cli.ExitUsage, code, name)
		require.Contains(t, stderr, name+" is a")
		require.NoError(t, os.Remove("d/"+name))
	}
	require.Zero(t, m.calls("agent_a"))
	require.NoDirExists(t, "d/agents/agent_a/001")
	if os.Getuid() == 0 {
		t.Skip("nothing is read-only for root")
	}
	require.NoError(t, os.Chmod("d", 0o555))
	code, _, stderr := s.steps(file)
	require.NoError(t, os.Chmod("d", 0o755))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "has to be writable")
}

// A hard round timeout ends a step between two tool calls.
func TestStep_roundTimeout(t *testing.T) {
	s := newStepShell(t)
	slow := writes("plan.md", "# Plan\n").while(func(*http.Request) { <-after() })
	m := newScripted(t, map[string][]said{"agent_a": {slow}})
	file := s.agent(m, "agent_a", "timeout_settings: {initial_round_timeout_seconds: 1, round_timeout_grace_seconds: 0}")
	code, last, stderr := s.steps(file)
	require.Equal(t, cli.ExitTimeout, code, stderr)
	require.Equal(t, "TimeOver", last.Error.Type)
}

// after is longer than a model's delay.
func after() <-chan time.Time { return time.After(400 * time.Millisecond) }

// An agent's first step has the timeout of the first round, later steps that of later
// rounds.
func TestStep_rounds(t *testing.T) {
	s := newStepShell(t)
	slow := writes("plan.md", "# Plan\n").while(func(*http.Request) { <-after() })
	m := newScripted(t, map[string][]said{"agent_a": {slow, slow, slow, answers("One."), slow}})
	file := s.agent(m, "agent_a", "timeout_settings: {subsequent_round_timeout_seconds: 1, round_timeout_grace_seconds: 0}")
	code, _, stderr := s.steps(file)
	require.Equal(t, cli.ExitOK, code, stderr)
	code, last, _ := s.steps(file)
	require.Equal(t, cli.ExitTimeout, code)
	require.Equal(t, "TimeOver", last.Error.Type)
	require.Equal(t, 2, last.StepNumber)
}

// A step has the same checklist as in a session: from the first answer on, with the
// criteria of the directory.
func TestStep_checklist(t *testing.T) {
	s := newStepShell(t)
	s.File("criteria.json", `[{"text": "Names its sources."}]`)
	m := newScripted(t, map[string][]said{"agent_a": {answers("One."), votes("agent1")}})
	file := s.agent(m, "agent_a", "orchestrator: {voting_sensitivity: checklist_gated}")
	code, _, stderr := s.steps(file, "--eval-criteria", "criteria.json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.NotContains(t, m.prompt("agent_a"), `"name":"submit_checklist"`)
	code, _, stderr = s.steps(file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, m.prompt("agent_a"), `"name":"submit_checklist"`)
	require.Contains(t, m.prompt("agent_a"), "Names its sources.")
}
