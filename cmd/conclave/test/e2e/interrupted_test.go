//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

func keep(name, data string) reply {
	return reply{tool: "record_evidence", arguments: map[string]any{"name": name, "type": "console_log", "data": data}}
}

func pass(summary string) reply {
	return reply{tool: "report_result", arguments: map[string]any{
		"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": summary,
	}}
}

// The process is killed in a step: earlier steps are already in the project, status copies the rest
// from the store, and watch continues the run.
func TestScenarioIsKilled(t *testing.T) {
	t.Parallel()
	atWork, killed := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{"model-a": {
		keep("console", "All quiet."), pass("It opened."),
		keep("console", "Still quiet."), pass("It is asked once more.").during(func() { close(atWork); <-killed }), pass("It was bought."),
	}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: The first thing.", "--step", "Buy: The second thing.").code)

	run := c.start("scenario", "run", "shop", "buy", "--config", team)
	<-atWork
	folder := filepath.Join(c.home, "shop", "scenarios", "buy", "runs")
	var id string
	require.Eventually(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(folder, "*", "step-01", "evidence", "console.txt"))
		if len(found) != 1 {
			return false
		}
		id = strings.Split(strings.TrimPrefix(found[0], folder+"/"), "/")[0]
		data, err := os.ReadFile(filepath.Join(folder, id, "result.json"))
		return err == nil && bytes.Contains(data, []byte(`"It opened."`))
	}, 20*time.Second, 50*time.Millisecond, "the first step's result is not there while the second runs")
	require.NoError(t, run.Process.Kill())
	run.ends(t)
	close(killed)
	c.gone()

	// status copies the files that the killed process had not copied.
	require.NoError(t, os.RemoveAll(filepath.Join(folder, id, "step-01")))
	look := c.conclave("scenario", "status", "shop", "buy", "--json")
	require.Equal(t, 0, look.code)
	var status struct {
		Running    int `json:"running"`
		RecentRuns []struct {
			RunID     string `json:"run_id"`
			RunNumber int    `json:"run_number"`
		} `json:"recent_runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(look.stdout), &status))
	require.Equal(t, 1, status.Running)
	require.Equal(t, id, status.RecentRuns[0].RunID)
	require.Equal(t, "All quiet.", content(t, filepath.Join(folder, id, "step-01", "evidence", "console.txt")))
	require.Contains(t, look.stderr, "conclave scenario watch")

	// The run keeps its definition if that changes meanwhile.
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Another thing.").code)
	out := c.conclave("scenario", "watch", "shop", "buy", "--automation")
	require.Equal(t, 0, out.code)
	var result scenario.Run
	out.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))
	require.Equal(t, 1, result.RunNumber)
	require.Equal(t, 5, model.calls("model-a"), "one call is paid twice")
	require.Contains(t, model.request("model-a", 3), "The second thing.")
	require.NotContains(t, model.request("model-a", 3), "quiet", "a step does not read the previous step's findings")
	require.NotContains(t, model.request("model-a", 3), "The first thing.")
	require.Contains(t, model.request("model-a", 3), "step 01: pass")
	require.Contains(t, content(t, filepath.Join(c.home, "shop/scenarios/buy/meta.yaml")), "pass_count: 1")
}

// A cancelled run is completed and counted, too.
func TestScenarioIsCancelled(t *testing.T) {
	t.Parallel()
	atWork, over := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{"model-a": {pass("Too late.").during(func() { close(atWork); <-over })}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Do it.", "--step", "Buy: Do it.").code)
	run := c.start("scenario", "run", "shop", "buy", "--config", team, "--automation")
	<-atWork
	require.Equal(t, 0, c.conclave("scenario", "cancel", "shop", "buy").code)
	close(over)
	require.Equal(t, 2, run.ends(t))
	require.Contains(t, c.conclave("scenario", "status", "shop", "buy", "--json").stdout, `"cancelled_count": 1`)
	found, err := filepath.Glob(filepath.Join(c.home, "shop/scenarios/buy/runs/*/result.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	var result scenario.Run
	readFile(t, found[0], &result)
	require.Equal(t, "cancelled skipped", statuses(result))
	require.NotNil(t, result.CompletedAt)
	late := c.conclave("scenario", "pause", "shop", "buy", result.RunID)
	require.Equal(t, 1, late.code)
	require.Contains(t, late.stderr, "pause scenario run buy/"+result.RunID+": it has ended already (cancelled)")
}

// Ctrl-C loses no work and prints the command that continues.
func TestScenarioIsInterrupted(t *testing.T) {
	t.Parallel()
	atWork, over := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{"model-a": {pass("Lost.").during(func() { close(atWork); <-over }), pass("Done.")}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Do it.").code)
	run := c.start("scenario", "run", "shop", "buy", "--config", team, "--automation")
	<-atWork
	require.NoError(t, run.Process.Signal(syscall.SIGINT))
	require.Equal(t, 4, run.ends(t))
	require.Contains(t, run.log.String(), "conclave scenario watch shop buy ")
	close(over)
	c.gone()
	require.Equal(t, 0, c.conclave("scenario", "watch", "shop", "buy").code)
	require.Contains(t, c.conclave("scenario", "status", "shop").stdout, "1 passing")
}

// payload is an argument or a result in a history as the Temporal CLI prints it.
var payload = regexp.MustCompile(`"data": "([A-Za-z0-9+/=]+)"`)

// payloads returns all arguments and results in the histories of a workflow's two runs.
func (c *e2eCLI) payloads(at, workflow string) string {
	c.t.Helper()
	var found []struct {
		Execution struct {
			RunID string `json:"runId"`
		} `json:"execution"`
	}
	require.Eventually(c.t, func() bool { // a list is behind by a moment
		out := c.temporal("workflow", "list", "--address", at, "--query", `WorkflowId = "`+workflow+`"`, "--output", "json")
		return json.Unmarshal([]byte(out.stdout), &found) == nil && len(found) == 2
	}, 20*time.Second, 200*time.Millisecond)
	var all strings.Builder
	for _, run := range found {
		out := c.temporal("workflow", "show", "--address", at, "--workflow-id", workflow, "--run-id", run.Execution.RunID, "--output", "json")
		for _, m := range payload.FindAllStringSubmatch(out.stdout, -1) {
			data, err := base64.StdEncoding.DecodeString(m[1])
			require.NoError(c.t, err)
			all.Write(append(data, '\n'))
		}
	}
	return all.String()
}

// A terminated run cannot be completed: status and its followers give the reason until it is
// continued.
func TestScenarioIsTerminated(t *testing.T) {
	t.Parallel()
	atWork, over := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{"model-a": {pass("It opened."), pass("Lost.").during(func() { close(atWork); <-over }), pass("Done.")}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Do it.", "--step", "Buy: Log in and do it.").code)
	c.file("shop/prd.md", "## Base URL\n\nhttp://127.0.0.1:1/\n\n## Credentials\n\n- site: http://ada:one-of-1843@127.0.0.1:1/\n- Password: "+secret+"\n")
	c.file("shop/scenarios/buy/steps/02-buy.md", "---\ncredentials: true\n---\n\n# 02 Buy\n\nLog in and do it.\n")
	dev := c.start("dev", "--config", team)
	at := address(t, dev)
	run := c.start("scenario", "run", "shop", "buy", "--config", team)
	<-atWork
	found, err := filepath.Glob(filepath.Join(c.home, "shop/scenarios/buy/runs/*/result.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	id := filepath.Base(filepath.Dir(found[0]))
	require.Contains(t, c.conclave("scenario", "run", "shop", "buy", "--config", team, "--retry", id).stderr, "it is still running")
	require.Equal(t, 0, c.temporal("workflow", "terminate", "--address", at, "--workflow-id", "scenario-buy-"+id, "--reason", "wrong lamp").code)
	close(over)
	require.Equal(t, 2, run.ends(t))
	require.Regexp(t, "run "+id+` of scenario buy was terminated by \S+: wrong lamp; .conclave scenario run \S+ buy --retry `+id, run.log.String())
	status := c.conclave("scenario", "status", "shop", "buy")
	require.Regexp(t, id+` +terminated .* terminated by \S+: wrong lamp`, status.stdout)
	require.Contains(t, status.stderr, "--retry "+id)
	require.NotContains(t, c.conclave("scenario", "status", "shop").stdout, "running")

	// A stock client continues the run by its workflow ID alone.
	require.Equal(t, 0, c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Scenario", "--workflow-id", "scenario-buy-"+id, "--input", `{"resume":true}`).code)
	out := c.conclave("scenario", "watch", "shop", "buy", id, "--automation")
	require.Equal(t, 0, out.code)
	var result scenario.Run
	out.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))
	require.Equal(t, 1, result.RunNumber)
	require.Contains(t, model.request("model-a", 2), secret, "the step that signs in reads the credentials")
	require.NotContains(t, model.request("model-a", 1), "1843", "the other one is not")

	// "Credentials of prd.md never appear in … events"
	past := c.payloads(at, "scenario-buy-"+id)
	require.Contains(t, past, "Log in and do it.", "the history can be read")
	require.NotContains(t, past, "1843")

	// On a cluster without a bucket the result is the workflow's.
	seen := c.conclave("scenario", "watch", "shop", "buy", id, "--address", at, "--automation")
	require.Equal(t, 0, seen.code)
	seen.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))

	// The worker refuses a run that it cannot execute: no run is started or recorded.
	elsewhere := c.file("elsewhere.yaml", "agents: [{id: a, backend: {model: m, provider: nowhere}}]\n")
	refused := c.conclave("scenario", "run", "shop", "buy", "--config", elsewhere, "--address", at)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, `no provider "nowhere"`)
	require.Contains(t, refused.stderr, "prd.md is in the input of the workflow, with its credentials")
	found, err = filepath.Glob(filepath.Join(c.home, "shop/scenarios/buy/runs/*/result.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)

	// No worker polls this queue.
	cluster := []string{"--address", at, "--task-queue", "nobody"}
	const idle = "no worker polls the task queue nobody at "
	stalled := c.start(append([]string{"scenario", "run", "shop", "buy", "--offline", "--session-id", "stalled"}, cluster...)...)
	stalled.prints(t, idle)
	require.Contains(t, c.conclave(append([]string{"scenario", "pause", "shop", "buy", "stalled"}, cluster...)...).stderr, "pause scenario run buy/stalled: "+idle)
	watch := c.start(append([]string{"scenario", "watch", "shop", "buy", "stalled"}, cluster...)...)
	watch.prints(t, idle)
	require.NoError(t, errors.Join(watch.Process.Kill(), stalled.Process.Kill()))
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}
