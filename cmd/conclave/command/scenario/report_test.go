package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/scenario"
)

func ran(slug string, status scenario.Status, steps ...scenario.Result) *run {
	return &run{slug: slug, id: "r-" + slug, document: json.RawMessage(`{"scenario":"` + slug + `"}`), result: scenario.Run{Status: status, Steps: steps}}
}

func broken(status scenario.Status, why string) scenario.Result {
	return scenario.Result{ID: "02", Title: "Buy", Status: status, Error: &why}
}

// The exit code is that of the worst run.
func TestExitCode(t *testing.T) {
	t.Parallel()
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	passed, failed := ran("a", scenario.Pass), ran("b", scenario.Fail, broken(scenario.Fail, "no lamp"))
	refused := &run{slug: "c", problem: cli.Exitf(cli.ExitUsage, "no provider")}
	for _, c := range []struct {
		ctx  context.Context
		runs []*run
		want int
	}{
		{t.Context(), []*run{passed}, cli.ExitOK},
		{t.Context(), []*run{passed, failed}, cli.ExitNoAnswer},
		{t.Context(), []*run{ran("d", scenario.Cancelled)}, cli.ExitNoAnswer},
		{t.Context(), []*run{refused}, cli.ExitUsage},
		{t.Context(), []*run{passed, refused}, cli.ExitNoAnswer},
		{cancelled, []*run{passed}, cli.ExitInterrupted},
	} {
		require.Equal(t, c.want, exitCode(c.ctx, c.runs))
	}
}

// A run is described by its status and the reason why it did not pass.
func TestRun_words(t *testing.T) {
	t.Parallel()
	paused := ran("a", scenario.Running)
	paused.result.Paused = true
	only := ran("a", scenario.Pass)
	only.result.Only = []string{"01", "02"}
	for name, c := range map[string]struct {
		of             *run
		status, reason string
	}{
		"passed":      {ran("a", scenario.Pass), "pass", ""},
		"failed":      {ran("a", scenario.Fail, broken(scenario.Fail, "no lamp")), "fail", "02 Buy: no lamp"},
		"an error":    {ran("a", scenario.Fail, broken(scenario.Errored, "Timeout")), "fail", "02 Buy: Timeout"},
		"cancelled":   {ran("a", scenario.Cancelled, broken(scenario.Cancelled, "the run was cancelled")), "cancelled", "02 Buy: the run was cancelled"},
		"paused":      {paused, "paused", ""},
		"some steps":  {only, "pass (only 01, 02)", ""},
		"not started": {&run{slug: "a", problem: errors.New("no provider\nsecond line")}, "not run", "no provider"},
		"just begun":  {&run{slug: "a", id: "r1"}, "running", ""},
	} {
		require.Equal(t, c.status, c.of.statusWord(), name)
		require.Equal(t, c.reason, c.of.failureReason(), name)
	}
	require.Equal(t, "–", formatNumber(0))
	require.Equal(t, "#3", formatNumber(3))
	require.Equal(t, "1.5 s", formatDuration(1500))
}

// For one run its result.json is printed; for several a status of all, with the errors of runs that
// did not end.
func TestPrintJSON(t *testing.T) {
	t.Parallel()
	printed := func(o *order) string {
		var out bytes.Buffer
		require.NoError(t, printJSON(&cli.CLI{Stdout: &out, JSON: true}, o))
		return out.String()
	}
	passed, lost := ran("a", scenario.Pass), &run{slug: "c", problem: errors.New("lost\nin detail")}
	require.JSONEq(t, `{"scenario":"a"}`, printed(&order{runs: []*run{passed}}))
	require.Empty(t, printed(&order{runs: []*run{lost}}))
	require.JSONEq(t, `{"status":"pass","runs":[{"scenario":"a"}],"errors":[]}`, printed(&order{flags: flags{all: true}, runs: []*run{passed}}))
	require.JSONEq(t, `{"status":"fail","runs":[{"scenario":"a"}],"errors":["c: lost"]}`, printed(&order{flags: flags{all: true}, runs: []*run{passed, lost}}))
}
