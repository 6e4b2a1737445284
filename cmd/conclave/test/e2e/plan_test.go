//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

// A scenario with placeholders, steps before and after, required evidence and unchanged
// files. A person's message reaches the running step, and status shows a pause.
func TestScenarioPlan(t *testing.T) {
	t.Parallel()
	atWork, said := make(chan struct{}), make(chan struct{})
	trace := reply{tool: "write_file", arguments: map[string]any{"path": "trace.txt", "content": "x"}}
	model := newModelServer(t, map[string][]reply{"model-a": {
		keep("console", "Seeded."), pass("Seeded."),
		trace.during(func() { close(atWork); <-said }), keep("console", "Read."), pass("Bought."), // 01
		pass("Trust me."), pass("Trust me."), // 02
		keep("console", "Empty."), pass("Cleaned."),
	}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	for slug, tag := range map[string]string{"buy": "smoke", "sell": "slow"} {
		require.Equal(t, 0, c.conclave("scenario", "create", "shop", slug, "--tag", tag,
			"--step", "Open: Go to ${BASE_URL}/${TENANT}.", "--step", "Buy: Press ${BUTTON:-Buy}.").code)
	}
	folder := filepath.Join(c.home, "shop", "scenarios", "buy")
	c.file("shop/scenarios/buy/steps/90-seed.md", "Seed the shop.\n")
	c.file("shop/scenarios/buy/steps/99-clean-up.md", "Empty the shop.\n")
	meta := content(t, filepath.Join(folder, "meta.yaml"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "meta.yaml"), []byte(meta+"require_evidence: true\nlimits: {model_calls: 40}\n"+
		"before: [{id: '90', title: Seed, file: 90-seed.md}]\nafter: [{id: '99', title: Clean up, file: 99-clean-up.md}]\n"), 0o600))

	require.Contains(t, c.conclave("scenario", "validate", "shop", "--config", team).stderr, "${TENANT} has no value; give --var TENANT=VALUE")
	run := c.start("scenario", "run", "shop", "--tag", "smoke", "--config", team, "--base-url", "http://127.0.0.1:1/", "--var", "TENANT=acme", "--automation")
	<-atWork
	found, err := filepath.Glob(filepath.Join(folder, "runs", "*"))
	require.NoError(t, err)
	id := filepath.Base(found[0])
	require.Equal(t, 0, c.conclave("say", id, "The lamp is now called Lumen.").code)
	close(said)
	require.Equal(t, 2, run.ends(t))
	require.Contains(t, model.request("model-a", 3), "Go to http://127.0.0.1:1/acme.")
	require.Contains(t, model.request("model-a", 4), "The lamp is now called Lumen.")
	require.NotContains(t, model.request("model-a", 6), "Lumen", "the message was for the other step")
	require.Contains(t, model.request("model-a", 6), "Press Buy.")
	require.Contains(t, model.request("model-a", 7), "passes only with evidence")

	var result scenario.Run
	readFile(t, filepath.Join(found[0], "result.json"), &result)
	require.Equal(t, "pass pass error pass", statuses(result))
	require.Contains(t, *result.Steps[2].Error, "require_evidence")
	require.Equal(t, "scenarios/buy/runs/"+id, result.RunPath)
	require.Equal(t, "99-clean-up.md", result.Steps[3].File)
	require.NoDirExists(t, filepath.Join(c.home, "shop", "scenarios", "sell", "runs"), "it has another tag")
}

// With --fail-fast no scenario is started after a failure; --only runs one step.
func TestScenarioSelection(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, slug := range []string{"a", "b"} {
		require.Equal(t, 0, c.conclave("scenario", "create", "shop", slug, "--step", "One: Go.", "--step", "Two: Go.\n  offline: fail").code)
	}
	out := c.conclave("scenario", "run", "shop", "--all", "--offline", "--fail-fast", "--parallel", "1")
	require.Equal(t, 2, out.code)
	require.Regexp(t, `(?m)^b +– +not run .*--fail-fast: a did not pass`, out.stdout)
	require.NoDirExists(t, filepath.Join(c.home, "shop/scenarios/b/runs"))
	out = c.conclave("scenario", "run", "shop", "b", "--offline", "--only", "01", "--automation")
	require.Equal(t, 0, out.code)
	var run scenario.Run
	out.lastLine(t, &run)
	require.Equal(t, "pass skipped", statuses(run))
	require.Equal(t, []string{"01"}, run.Only)
	var status struct {
		RunPath    string `json:"run_path"`
		TotalRuns  int    `json:"total_runs"`
		RecentRuns []struct {
			RunPath string `json:"run_path"`
			Steps   []struct{ File string }
		} `json:"recent_runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(c.conclave("scenario", "status", "shop", "b", "--json").stdout), &status))
	require.Zero(t, status.TotalRuns, "a run with --only does not count")
	require.Equal(t, run.RunPath, status.RecentRuns[0].RunPath)
	require.Equal(t, "01-one.md", status.RecentRuns[0].Steps[0].File)
}
