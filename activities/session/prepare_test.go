package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/step"
)

func (f *floor) prepare(in PrepareInput) (Prepared, error) {
	f.t.Helper()
	in.Session, in.WorkflowID, in.Query = "s2", "w", "Why?"
	value, err := f.ExecuteActivity("Prepare", in)
	var p Prepared
	if err == nil {
		require.NoError(f.t, value.Get(&p))
	}
	return p, err
}

// The result fixes the heartbeat timeout of the session's steps.
func TestPrepare_fixesTheHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.HeartbeatTimeout = 45 * time.Second
	p, err := f.prepare(PrepareInput{})
	require.NoError(t, err)
	require.Equal(t, 45, p.HeartbeatTimeoutSeconds)
}

// Only a team of the operator has a name: it is a label of metrics.
func TestPrepare_namesTheTeam(t *testing.T) {
	t.Parallel()
	own, err := json.Marshal(config.Default())
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		in   PrepareInput
		want string
	}{
		"none": {PrepareInput{}, activities.DefaultTeam}, "named": {PrepareInput{Team: activities.DefaultTeam}, activities.DefaultTeam},
		"of the input": {PrepareInput{Config: own}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := newFloor(t).prepare(tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.want, p.Team)
		})
	}
	a := newFloor(t).Activities
	require.Empty(t, a.teamName(PrepareInput{Continues: "s1"}), "it has the team of the session before")
	require.Empty(t, a.teamName(PrepareInput{Team: config.Default().Hash()}), "a local stack names teams by their hashes")
}

// A cost limit with a model of unknown price fails the session at its start.
func TestPrepare_costLimitNeedsPrices(t *testing.T) {
	t.Parallel()
	limited := func(f *floor) {
		usd := 2.0
		team := config.Default()
		team.Orchestrator.Budget.MaxCostUSD = &usd
		f.Teams.Named[activities.DefaultTeam] = team
	}
	f := newFloor(t)
	limited(f)
	f.OnPriced = func(a config.Agent) bool { return a.ID != "agent_b" }
	_, err := f.prepare(PrepareInput{})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, activities.ConfigInvalid, refused.Type())
	require.True(t, refused.NonRetryable())
	require.Contains(t, refused.Message(), "agent agent_b: a limit in dollars is set")
	there, err := f.store.Exists(t.Context(), "sessions/s2/session.json")
	require.NoError(t, err)
	require.False(t, there, "nothing is claimed")

	f.OnPriced = func(config.Agent) bool { return true }
	_, err = f.prepare(PrepareInput{})
	require.NoError(t, err)

	_, err = newFloor(t).prepare(PrepareInput{})
	require.NoError(t, err, "without a limit prices are not needed")
}

// Limits of the input lower those of the team, whose hash stays the same.
func TestPrepare_limits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits  artifact.Limits
		seconds int
		usd     float64
	}{
		"none":   {artifact.Limits{}, 7200, 2},
		"lower":  {artifact.Limits{Seconds: 90.5, CostUSD: 0.25}, 90, 0.25},
		"higher": {artifact.Limits{Seconds: 9000, CostUSD: 3}, 7200, 2},
		"little": {artifact.Limits{Seconds: 0.5}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(t)
			team, usd := config.Default(), 2.0
			team.Orchestrator.Budget.MaxCostUSD = &usd
			f.Teams.Named[activities.DefaultTeam] = team
			f.OnPriced = func(config.Agent) bool { return true }
			p, err := f.prepare(PrepareInput{Limits: tt.limits})
			require.NoError(t, err)
			require.Equal(t, tt.seconds, p.TimeoutSeconds)
			require.InDelta(t, tt.usd, p.Coordination.Budget.USD, 0)
			require.Equal(t, team.Hash(), p.ConfigHash)
			session, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, "sessions/s2/session.json")
			require.NoError(t, err)
			require.Equal(t, tt.limits, session.Limits)
		})
	}
	f := newFloor(t)
	f.OnPriced = func(config.Agent) bool { return false }
	_, err := f.prepare(PrepareInput{Limits: artifact.Limits{CostUSD: 1}})
	require.ErrorContains(t, err, "a limit in dollars is set, but the price of the model")
}

// A team whose caller's tools are for the presenter gets a step that presents. It keeps its hash,
// by which later steps find the operator's team.
func TestPrepare_toolsForThePresenter(t *testing.T) {
	t.Parallel()
	tools := json.RawMessage(`[{"type":"function","function":{"name":"book"}}]`)
	for name, tt := range map[string]struct {
		strategy string
		caller   artifact.Caller
		want     string
	}{
		"no tools":                {"winner_reuse", artifact.Caller{ClientToolsFor: artifact.ForPresenter}, "winner_reuse"},
		"for everybody":           {"winner_reuse", artifact.Caller{ClientTools: tools}, "winner_reuse"},
		"nobody would present":    {"winner_reuse", artifact.Caller{ClientTools: tools, ClientToolsFor: artifact.ForPresenter}, "winner_present"},
		"somebody presents as is": {"synthesize", artifact.Caller{ClientTools: tools, ClientToolsFor: artifact.ForPresenter}, "synthesize"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(t)
			team := config.Default()
			team.Agents[0].Backend.BaseURL = "http://127.0.0.1:1/v1" // refused in config.json
			team.Orchestrator.FinalAnswerStrategy = tt.strategy
			f.Teams.Named[activities.DefaultTeam] = team
			p, err := f.prepare(PrepareInput{Caller: tt.caller})
			require.NoError(t, err)
			require.Equal(t, tt.want, p.Coordination.Strategy)
			require.Equal(t, len(tt.caller.ClientTools) > 0, p.Coordination.CallerSeconds > 0)
			found, err := f.Teams.ByHash(t.Context(), f.store, artifact.InBucket("s2"), p.ConfigHash)
			require.NoError(t, err)
			require.Equal(t, team, found)
		})
	}
}

// A session cannot take an ID whose files are still being deleted.
func TestPrepare_refusesDeletedFiles(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	mark := artifact.InBucket("s2").File(artifact.Deleted)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, mark, struct{}{}))
	_, err := f.prepare(PrepareInput{})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, activities.SessionTaken, refused.Type())
	require.Contains(t, refused.Message(), "session s2 is being deleted")
	there, err := f.store.Exists(t.Context(), "sessions/s2/session.json")
	require.NoError(t, err)
	require.False(t, there, "nothing is claimed")

	require.NoError(t, f.store.Delete(t.Context(), mark))
	_, err = f.prepare(PrepareInput{})
	require.NoError(t, err)
}

// Whatever the preparing worker lacks, another one may have: the session begins, and its steps wait.
func TestPrepare_withoutTools(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{activities.NoServer, activities.NoSandbox, activities.NoProvider, activities.MissingKey} {
		f := newFloor(t)
		f.OnLacks = func(context.Context, config.Agent) error {
			return &activities.LackError{Type: kind, Err: errors.New(kind + " is lacking")}
		}
		_, err := f.prepare(PrepareInput{})
		require.NoError(t, err, kind)
	}
}

// A session names its base and context in session.json; without them in the store nothing
// is claimed.
func TestPrepare_material(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o644))
	done, err := snapshot.Upload{Store: f.store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	stored := snapshot.Reference(done.Hash)
	for want, m := range map[string]artifact.Material{
		"the store has no base": {Base: snapshot.Reference(strings.Repeat("0", 64))},
		"is not a reference":    {Base: done.Hash},
		"context name":          {Context: []artifact.Context{{Name: "../x", Manifest: stored}}},
		"two directories docs":  {Context: []artifact.Context{{Name: "docs", Manifest: stored}, {Name: "docs", Manifest: stored}}},
		"conclave upload":       {Context: []artifact.Context{{Name: "docs", Manifest: "sha256:x"}}},
	} {
		_, err := f.prepare(PrepareInput{Material: m})
		var refused *temporal.ApplicationError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, activities.ConfigInvalid, refused.Type())
		require.Contains(t, refused.Message(), want)
	}
	there, err := f.store.Exists(t.Context(), "sessions/s2/session.json")
	require.NoError(t, err)
	require.False(t, there, "nothing is claimed")

	m := artifact.Material{Base: stored, Context: []artifact.Context{{Name: "docs", Manifest: stored}}}
	_, err = f.prepare(PrepareInput{Material: m})
	require.NoError(t, err)
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, "sessions/s2/session.json")
	require.NoError(t, err)
	require.Equal(t, m, session.Material)
}

// A base that is a source is read when the session starts, once: a retry finds the files of the first attempt.
func TestPrepare_source(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	dir, reads := t.TempDir(), 0
	f.ReadSource = func(ctx context.Context, name string) (string, error) {
		require.Equal(t, "site", name)
		reads++
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("x", reads)), 0o600))
		done, err := snapshot.Upload{Store: f.store, Dir: dir, Now: time.Now}.Run(ctx)
		return snapshot.Reference(done.Hash), err
	}
	in := PrepareInput{Material: artifact.Material{Base: "source:site"}}
	_, err := f.prepare(in)
	require.NoError(t, err)
	first, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, "sessions/s2/session.json")
	require.NoError(t, err)
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", first.Base)
	_, err = f.prepare(in)
	require.NoError(t, err)
	again, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, "sessions/s2/session.json")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, reads)

	f = newFloor(t)
	lacks := &activities.LackError{Type: activities.NoSource, Err: errors.New("this worker has no source site")}
	f.ReadSource = func(context.Context, string) (string, error) { return "", lacks }
	_, err = f.prepare(in)
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NonRetryable(), "no other worker can have it")
	f.OnAlone = func(context.Context) bool { return false }
	_, err = f.prepare(in)
	require.ErrorAs(t, err, &refused)
	require.False(t, refused.NonRetryable(), "another worker may have it")
	f.ReadSource = func(context.Context, string) (string, error) { return "", errors.New("the repository is away") }
	_, err = f.prepare(in)
	require.ErrorAs(t, err, &refused)
	require.False(t, refused.NonRetryable(), "it may come back")
	f.ReadSource = nil
	_, err = f.prepare(in)
	require.ErrorContains(t, err, "define it under sources")
}

// A session whose agents get a shell where commands are confined records what its worker decided: the
// steps on other workers follow it, and everybody is told if nothing could be run.
func TestPrepare_settlesTheShell(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		unconfined error
		shell      config.Shell
		why        string
	}{
		"confined": {nil, config.ShellOn, ""}, "unconfined": {errors.New("no sandbox here"), config.ShellOff, "no sandbox here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(t)
			f.team = f.team.WithShell(config.AutoShell)
			f.Teams.Named[activities.DefaultTeam] = f.team
			f.Unconfined = tt.unconfined
			p, err := f.prepare(PrepareInput{})
			require.NoError(t, err)
			require.Equal(t, tt.why, p.NoShell)
			f.Unconfined = errors.New("another worker")
			var opened config.Agent
			layers := map[string]bool{}
			f.OnOpenTools = func(_ context.Context, a config.Agent, _ string, s activities.Sharing) (step.Tools, error) {
				opened = a
				layers[s.Agent] = true
				return nil, &activities.LackError{Type: activities.ToolsUnavailable, Err: errors.New("enough")}
			}
			l := answering()
			for n, of := range []struct {
				agent   string
				purpose coordination.Purpose
			}{{"agent_a", coordination.Coordinate}, {"agent_b", coordination.Coordinate}, {"agent_a", coordination.Evaluation}, {"agent_a", coordination.Coordinate}} {
				l.ID, l.Agent, l.Number, l.Round, l.Purpose = coordination.LaunchID(fmt.Sprint("l", n)), of.agent, n+1, 1, of.purpose
				_, err = f.ExecuteActivity("RunStep", StepInput{Session: "s2", ConfigHash: p.ConfigHash, Launch: l})
				require.ErrorContains(t, err, "enough")
				require.Equal(t, tt.shell, opened.Tools.Shell)
			}
			require.Len(t, layers, 3, "an agent that judges its answer meets nothing of what it has written to caches")
		})
	}
}
