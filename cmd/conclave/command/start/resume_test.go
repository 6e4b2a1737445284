package start

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

// until runs a step of an agent, interrupted when stop calls its argument.
func (s shell) until(config string, stop func(context.CancelFunc), more ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	defer cancel()
	stop(cancel)
	line := append([]string{"step", "--automation", "--session-dir", "d", "--config", config}, more...)
	return s.RunUntil(ctx, append(line, "Which of us is right?")...)
}

// hanging is a reply that waits until the client disconnects.
func hanging(begun func()) said {
	return answers("never").while(func(r *http.Request) {
		begun()
		<-r.Context().Done()
	})
}

// An interrupted step is continued: no call is paid for twice, and its files are there.
func TestResume(t *testing.T) {
	s := newStepShell(t)
	var interrupt context.CancelFunc
	m := newScripted(t, map[string][]said{
		"agent_a": {answers("The older one."), writes("plan.md", "# Plan\n"), hanging(func() { interrupt() }), answers("Done.")},
	})
	file := s.agent(m, "agent_a", "")
	code, _, _ := s.steps(file)
	require.Equal(t, cli.ExitOK, code)

	code, stdout, stderr := s.until(file, func(cancel context.CancelFunc) { interrupt = cancel })
	require.Equal(t, cli.ExitInterrupted, code, stderr)
	require.Contains(t, stderr, "the same command continues step 2, --fresh starts a new one")
	var last seedAction
	s.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, "none", last.Action)
	require.Equal(t, 2, last.StepNumber)
	require.Equal(t, "Interrupted", last.Error.Type)
	file2, err := os.ReadFile("d/agents/agent_a/last_action.json")
	require.NoError(t, err)
	require.JSONEq(t, string(file2), stdout)
	require.NoFileExists(t, "d/agents/agent_a/002/action.json")
	code, stdout, _ = s.checks("d", "")
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, `"running": false`)
	require.Equal(t, []string{"agent_a"}, parseCheck(t, stdout).Next)

	code, again, stderr := s.steps(file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 2, again.StepNumber)
	require.Equal(t, "Done.", *again.AnswerText)
	require.EqualValues(t, 2, again.Cost.ModelCalls, "the first launch's calls count, except the interrupted one")
	require.Equal(t, 4, m.calls("agent_a"))
	require.FileExists(t, "d/agents/agent_a/002/workspace/plan.md")
	require.NoDirExists(t, "d/agents/agent_a/003")
	journals, err := os.ReadDir("d/journal")
	require.NoError(t, err)
	require.Empty(t, journals)
	locks, err := os.ReadDir("d/.conclave-locks")
	require.NoError(t, err)
	require.Empty(t, locks)
}

// An agent without an ID gets the ID to continue with, because the same command
// would run another agent.
func TestResume_reservedID(t *testing.T) {
	s := newStepShell(t)
	var interrupt context.CancelFunc
	m := newScripted(t, map[string][]said{"m": {writes("plan.md", "# Plan\n"), hanging(func() { interrupt() }), answers("Done.")}})
	agent := func(id string) {
		s.File("agent.yaml", "agent: {"+id+"backend: {model: m, base_url: '"+m.URL+"/v1'}}")
	}
	agent("")
	code, _, stderr := s.until("agent.yaml", func(cancel context.CancelFunc) { interrupt = cancel })
	require.Equal(t, cli.ExitInterrupted, code)
	require.Contains(t, stderr, "with the id agent_a in the configuration the same command continues step 1")
	agent("id: agent_a, ")
	code, last, stderr := s.steps("agent.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 1, last.StepNumber)
	require.EqualValues(t, 2, last.Cost.ModelCalls)
}

// An agent that joins shifts the numbers of others: the step continues with the numbers
// of its prompt, and readers of its answer get the current ones.
func TestResume_afterAnotherJoined(t *testing.T) {
	s := newStepShell(t)
	var interrupt context.CancelFunc
	m := newScripted(t, map[string][]said{
		"agent_b": {answers("The answer of B.")},
		"agent_c": {writes("plan.md", "# Plan\n"), hanging(func() { interrupt() }), answers("agent1.1 is right, see peers/agent1/x.")},
		"agent_a": {answers("The answer of A."), votes("agent3")},
	})
	code, _, _ := s.steps(s.agent(m, "agent_b", ""))
	require.Equal(t, cli.ExitOK, code)
	code, _, _ = s.until(s.agent(m, "agent_c", ""), func(cancel context.CancelFunc) { interrupt = cancel })
	require.Equal(t, cli.ExitInterrupted, code)
	code, _, _ = s.steps(s.agent(m, "agent_a", ""))
	require.Equal(t, cli.ExitOK, code)

	code, last, stderr := s.steps("agent_c.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 1, last.StepNumber)
	require.Equal(t, 3, m.calls("agent_c"), "no call is paid twice")
	require.NotContains(t, m.prompt("agent_c"), "The answer of A.")
	code, last, _ = s.steps("agent_a.yaml")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "agent_c", *last.VoteTarget)
	require.Contains(t, m.prompt("agent_a"), "agent2.1 is right, see peers/agent2/x.")
}

// With --fresh, or another question, the agent starts a new step; steps interrupted
// before are never continued.
func TestResume_fresh(t *testing.T) {
	for name, more := range map[string][]string{"fresh": {"--fresh"}, "criteria": {"--eval-criteria", "criteria.json"}} {
		t.Run(name, func(t *testing.T) {
			s := newStepShell(t)
			s.File("criteria.json", `[{"text": "Is short."}]`)
			var interrupt context.CancelFunc
			m := newScripted(t, map[string][]said{
				"agent_a": {writes("plan.md", "# Plan\n"), hanging(func() { interrupt() }), answers("Anew."), votes("agent1")},
			})
			file := s.agent(m, "agent_a", "")
			code, _, _ := s.until(file, func(cancel context.CancelFunc) { interrupt = cancel })
			require.Equal(t, cli.ExitInterrupted, code)
			code, last, stderr := s.steps(file, more...)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Equal(t, 2, last.StepNumber)
			require.NotContains(t, m.prompt("agent_a"), "plan.md\\\\", "the conversation is a new one")
			require.EqualValues(t, 1, last.Cost.ModelCalls)
			require.NoDirExists(t, "d/agents/agent_a/002/workspace")
			code, last, _ = s.steps(file)
			require.Equal(t, cli.ExitOK, code)
			require.Equal(t, 3, last.StepNumber)
		})
	}
}

// A claim without a journal cannot be continued; its number stays taken.
func TestResume_bareClaim(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {answers("Mine.")}})
	s.step("d/agents/agent_a/001/step.json", `{"token": "step-x", "seen_steps": {}, "labels": []}`)
	s.step("d/agents/agent_a/002/step.json", `{"token": "../../x", "seen_steps": {}, "labels": []}`)
	s.step("d/agents/agent_a/003/step.json", `torn`)
	code, last, _ := s.steps(s.agent(m, "agent_a", ""))
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 4, last.StepNumber)
}

// A step killed after its commit has acted. The next launch writes the derived documents and
// returns that step.
func TestResume_committed(t *testing.T) {
	s := newStepShell(t)
	m := newScripted(t, map[string][]said{"agent_a": {writes("plan.md", "# Plan\n"), answers("Mine."), votes("agent1")}})
	file := s.agent(m, "agent_a", "")
	code, first, _ := s.steps(file)
	require.Equal(t, cli.ExitOK, code)
	var claim struct {
		Token string `json:"token"`
	}
	torn := func() {
		s.read("agents/agent_a/001/step.json", &claim)
		s.step("d/journal/"+claim.Token+"/000001.json", "{}")
		for _, name := range []string{"001/answer.json", "001/workspace", "001/workspace.json", "last_action.json"} {
			require.NoError(t, os.RemoveAll("d/agents/agent_a/"+name))
		}
	}
	torn()
	code, again, stderr := s.steps(file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, first, again)
	require.Equal(t, 2, m.calls("agent_a"), "nothing is paid again")
	for _, name := range []string{"001/answer.json", "001/workspace/plan.md", "001/transcript.jsonl", "last_action.json"} {
		require.FileExists(t, "d/agents/agent_a/"+name)
	}
	torn()
	code, again, stderr = s.steps(file, "--fresh")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 2, again.StepNumber)
	require.FileExists(t, "d/agents/agent_a/001/answer.json")
	require.NoDirExists(t, filepath.Join("d/journal", claim.Token))
}

// A running step belongs to its process: another launch takes another number, and
// --check waits for it.
func TestResume_running(t *testing.T) {
	s := newStepShell(t)
	atWork, release := make(chan struct{}), make(chan struct{})
	m := newScripted(t, map[string][]said{"agent_a": {
		writes("plan.md", "# Plan\n"),
		answers("The first.").while(func(*http.Request) { close(atWork); <-release }),
		answers("The second."),
	}})
	file := s.agent(m, "agent_a", "")
	first := make(chan int, 1)
	go func() {
		code, _, _ := s.until(file, func(context.CancelFunc) {})
		first <- code
	}()
	<-atWork
	code, stdout, _ := s.checks("d", "")
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, `"running": true`)
	require.Empty(t, parseCheck(t, stdout).Next)
	for range 20 { // readers delay no step
		s.checks("d", "")
	}

	code, last, stderr := s.steps(file, "--fresh")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 2, last.StepNumber)
	require.Contains(t, stderr, "step 1 of agent_a runs in another process")
	close(release)
	require.Equal(t, cli.ExitOK, <-first)
	var a seedAnswer
	s.read("agents/agent_a/001/answer.json", &a)
	require.Equal(t, "The first.", a.Answer)
	s.read("agents/agent_a/002/answer.json", &a)
	require.Equal(t, "The second.", a.Answer)
	var l seedAction
	s.read("agents/agent_a/last_action.json", &l)
	require.Equal(t, 2, l.StepNumber, "a step that ends late does not hide a later one")
}

// Concurrent launches of one agent get different numbers, and overwrite nothing.
func TestStep_concurrentLaunches(t *testing.T) {
	s := newStepShell(t)
	const launches = 8
	var asked atomic.Int32
	allAsked := make(chan struct{})
	together := func(*http.Request) { // no agent sees another's answer
		if asked.Add(1) == launches {
			close(allAsked)
		}
		<-allAsked
	}
	m := newScripted(t, map[string][]said{"agent_a": {writes("plan.md", "# Plan\n").while(together), answers("Mine.").while(together)}})
	file := s.agent(m, "agent_a", "")
	type ended struct {
		code int
		out  string
	}
	all := make(chan ended)
	for range launches {
		go func() {
			code, stdout, stderr := s.until(file, func(context.CancelFunc) {})
			all <- ended{code, stdout + stderr}
		}()
	}
	for range launches {
		e := <-all
		require.Equal(t, cli.ExitOK, e.code, e.out)
	}
	tokens := map[string]bool{}
	for n := 1; n <= launches; n++ {
		var c struct {
			Token string `json:"token"`
		}
		s.read(fmt.Sprintf("agents/agent_a/%03d/action.json", n), &c)
		tokens[c.Token] = true
		require.FileExists(t, fmt.Sprintf("d/agents/agent_a/%03d/answer.json", n))
	}
	require.Len(t, tokens, launches)
	require.NoDirExists(t, "d/agents/agent_a/009")
}
