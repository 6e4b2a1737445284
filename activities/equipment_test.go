package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/loop"
)

// An unusable configuration fails before it costs anything.
func TestCheckTeam(t *testing.T) {
	t.Parallel()
	lacking := func(kind string) func(context.Context, config.Agent) error {
		return func(context.Context, config.Agent) error {
			return &activities.LackError{Type: kind, Err: errors.New("no " + kind)}
		}
	}
	failing := func(err error) func(config.Agent) (loop.Model, error) {
		return func(config.Agent) (loop.Model, error) { return nil, err }
	}
	priced := func(yes bool) func(config.Agent) bool { return func(config.Agent) bool { return yes } }
	for name, tt := range map[string]struct {
		worker  workertest.Worker
		limited bool   // the team has a limit in dollars
		want    string // empty if the team is usable
	}{
		"usable":               {workertest.Worker{}, false, ""},
		"a missing key":        {workertest.Worker{OnModel: failing(lacking(activities.MissingKey)(nil, config.Agent{}))}, false, ""},
		"a missing provider":   {workertest.Worker{OnModel: failing(lacking(activities.NoProvider)(nil, config.Agent{}))}, false, ""},
		"a wrong parameter":    {workertest.Worker{OnModel: failing(errors.New("unknown kind"))}, false, "agent agent_a: unknown kind"},
		"a missing MCP server": {workertest.Worker{OnLacks: lacking(activities.NoServer)}, false, ""},
		"a key of a server":    {workertest.Worker{OnLacks: lacking(activities.MissingKey)}, false, ""},
		"an unknown price":     {workertest.Worker{OnPriced: priced(false)}, true, "a limit in dollars is set, but the price of the model"},
		"a known price":        {workertest.Worker{OnPriced: priced(true)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team := config.Default()
			if tt.limited {
				team.Orchestrator.Budget.MaxCostUSD = new(1.0)
			}
			err := activities.CheckTeam(t.Context(), &tt.worker, &tt.worker, team, true)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, activities.ConfigInvalid, refused.Type())
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), tt.want)
		})
	}
}

// What one worker does not know another may, while there is one; not for ever.
func TestUnknownName(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		w := &workertest.Worker{OnAlone: func(context.Context) bool { return alone }}
		resolve := func(ctx context.Context) error {
			return activities.UnknownName(ctx, w, errors.New("no team x"))
		}
		env.RegisterActivity(resolve)
		_, err := env.ExecuteActivity(resolve)
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, alone, failed.NonRetryable())
		require.Contains(t, failed.Message(), "no team x")
		require.Equal(t, !alone, strings.Contains(failed.Message(), "(worker on "))
	}
}

// The worker that prepares a run decides for all its steps whether agents with `shell: auto` get one; what an
// agent's file says otherwise holds.
func TestSettleShell(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	confined := func(context.Context) error { return nil }
	unconfined := func(context.Context) error { return errors.New("this host gives nothing") }
	agents := func(shells ...config.Shell) (list []config.Agent) {
		for _, s := range shells {
			a := config.Defaults[config.Agent]()
			a.Tools.Shell = s
			list = append(list, a)
		}
		return list
	}
	given := agents(config.AutoShell, config.ShellOff, config.ShellOn)
	for name, tt := range map[string]struct {
		first, second func(context.Context) error
		auto          config.Shell
		why           string
	}{
		"on":  {confined, unconfined, config.ShellOn, ""},
		"off": {unconfined, confined, config.ShellOff, "this host gives nothing"},
	} {
		layout := artifact.InBucket(name)
		for _, worker := range []func(context.Context) error{tt.first, tt.second} {
			settled, why, err := activities.SettleShell(t.Context(), worker, store, layout, given...)
			require.NoError(t, err)
			require.Equal(t, tt.why, why)
			require.Equal(t, agents(tt.auto, config.ShellOff, config.ShellOn), settled, name)
		}
	}
	require.Equal(t, config.AutoShell, given[0].Tools.Shell, "a copy")
	settled, why, err := activities.SettleShell(t.Context(), unconfined, store, artifact.InBucket("none"), given[1:]...)
	require.NoError(t, err)
	require.Empty(t, why)
	require.Equal(t, given[1:], settled)
	there, err := store.Exists(t.Context(), artifact.InBucket("none").File(activities.ShellFile))
	require.NoError(t, err)
	require.False(t, there, "nobody asked")
}
