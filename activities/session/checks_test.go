package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/session"
	"conclave/engine/session/check"
)

// A step hands in the checks of its answer: executables and commands of checks.yaml.
func TestRunStep_handsInChecks(t *testing.T) {
	t.Parallel()
	f := newFloor(t,
		calls("write_file", map[string]string{"path": ".conclave/checks/checks.yaml", "content": "- {name: sum, command: ./add.sh}\n"}),
		calls("new_answer", map[string]string{"content": "Because."}))
	value, err := f.ExecuteActivity("RunStep", StepInput{
		Session: "s1", ConfigHash: f.team.Hash(), Checks: true,
		Launch: coordination.Launch{ID: "l1", Agent: "agent_a", Number: 1, Round: 1, Offered: []coordination.Action{coordination.NewAnswer}},
	})
	require.NoError(t, err)
	var result StepResult
	require.NoError(t, value.Get(&result))
	require.Len(t, result.Checks, 1)
	d, err := artifact.ReadJSON[check.Definition](t.Context(), f.store, check.Key(artifact.InBucket("s1"), result.Checks[0]))
	require.NoError(t, err)
	require.Equal(t, "./add.sh", d.Command)
	plain, err := session.DigestOf("Because.", artifact.Change{}, "")
	require.NoError(t, err)
	require.Equal(t, plain, result.Digest, "a check makes no answer different")
}

// away is a store that cannot return one content.
type away struct {
	artifact.Store
	key string
}

func (a away) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if key == a.key {
		return nil, errors.New("the bucket is away")
	}
	return a.Store.Open(ctx, key)
}

// A fault of the store fails the step's activity, so that the checks are not lost.
func TestKeepChecks_unreadable(t *testing.T) {
	t.Parallel()
	const list = "- {name: sum, command: ./add.sh}\n"
	f := newFloor(t,
		calls("write_file", map[string]string{"path": ".conclave/checks/checks.yaml", "content": list}),
		calls("new_answer", map[string]string{"content": "Because."}))
	_, err := f.ExecuteActivity("RunStep", StepInput{
		Session: "s1", ConfigHash: f.team.Hash(), Checks: true,
		Launch: coordination.Launch{ID: "l1", Agent: "agent_a", Number: 1, Round: 1, Offered: []coordination.Action{coordination.NewAnswer}},
	})
	require.NoError(t, err)
	layout := artifact.InBucket("s1")
	commit, err := artifact.ReadJSON[artifact.Commit](t.Context(), f.store, layout.Step("agent_a", 1, "action.json"))
	require.NoError(t, err)
	f.Store = away{f.store, layout.Blob(fmt.Sprintf("%x", sha256.Sum256([]byte(list))))}
	require.ErrorContains(t, f.keepChecks(t.Context(), "s1", commit, &StepResult{}), "the bucket is away")
}

// commitAnswer stores an answer without files as step 1 of an agent.
func (f *floor) commitAnswer(agent, text string) coordination.Shown {
	f.t.Helper()
	payload, err := json.Marshal(session.Answer{Answer: text, Label: "agent1.1"})
	require.NoError(f.t, err)
	key := artifact.InBucket("s1").Step(agent, 1, "action.json")
	require.NoError(f.t, artifact.PutJSON(f.t.Context(), f.store, key, artifact.Commit{Kind: "new_answer", Payload: payload}))
	return coordination.Shown{Agent: agent, Number: 1, Label: "agent1.1", Step: 1}
}

func (f *floor) define(d check.Definition) string {
	f.t.Helper()
	require.NoError(f.t, artifact.PutJSON(f.t.Context(), f.store, check.Key(artifact.InBucket("s1"), d.ID), d))
	return d.ID
}

func (f *floor) runChecks(answer coordination.Shown, ids ...string) (string, error) {
	value, err := f.ExecuteActivity("RunChecks", CheckInput{Session: "s1", Answer: answer, Checks: ids})
	if err != nil {
		return "", err
	}
	var r CheckResult
	require.NoError(f.t, value.Get(&r))
	return r.Verdicts, nil
}

// Each outcome is found once: a retry and an equal answer read it.
func TestRunChecks(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	var ran atomic.Int32
	f.OnConfine = func(_ context.Context, c check.Confined) (check.Ended, error) {
		ran.Add(1)
		if strings.Contains(c.Command, "endless") {
			return check.Ended{Limit: "time"}, nil
		}
		return check.Ended{Code: len(c.Command) - len("good")}, nil
	}
	good, bad := f.define(check.Definition{ID: "a", Command: "good"}), f.define(check.Definition{ID: "b", Command: "endless"})
	first := f.commitAnswer("agent_a", "Because.")
	verdicts, err := f.runChecks(first, good, bad, good)
	require.NoError(t, err)
	require.Equal(t, "101", verdicts)
	_, err = f.runChecks(f.commitAnswer("agent_b", "Because."), bad, good)
	require.NoError(t, err)
	require.EqualValues(t, 2, ran.Load(), "an equal answer")
	late := f.define(check.Definition{ID: "c", Command: "good2"})
	verdicts, err = f.runChecks(first, late)
	require.NoError(t, err)
	require.Equal(t, "0", verdicts)
	listed, err := artifact.ReadJSON[[]check.Result](t.Context(), f.store, artifact.InBucket("s1").Step("agent_a", 1, "checks.json"))
	require.NoError(t, err)
	require.Len(t, listed, 3)
	require.Equal(t, "time", listed[1].Limit)
}

// A fault of the host fails the activity: it says nothing about the answer.
func TestRunChecks_faultOfTheHost(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.OnConfine = func(context.Context, check.Confined) (check.Ended, error) {
		return check.Ended{}, errors.New("no memory for a namespace")
	}
	_, err := f.runChecks(f.commitAnswer("agent_a", "Because."), f.define(check.Definition{ID: "a", Command: "good"}))
	require.ErrorContains(t, err, "no memory for a namespace")
	require.False(t, f.exists("agents/agent_a/001/checks.json"))
}

// Prepare copies the user's checks into the session, and refuses a team that runs none.
func TestPrepare_userChecks(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	upload := func(files map[string]string) string {
		dir := t.TempDir()
		writeFiles(t, dir, files)
		stored, err := snapshot.Upload{Store: f.store, Dir: dir, Now: time.Now}.Run(t.Context())
		require.NoError(t, err)
		return snapshot.Reference(stored.Hash)
	}
	reference := upload(map[string]string{"checks.yaml": "- {name: u, command: test -s add.sh}\n"})
	_, err := f.prepare(PrepareInput{Checks: reference})
	require.ErrorContains(t, err, "set orchestrator.ballot to checks_shown")

	deciding := config.Default()
	deciding.Orchestrator.Ballot = "checks_decide"
	f.Teams.Named[activities.DefaultTeam] = deciding
	p, err := f.prepare(PrepareInput{Checks: reference})
	require.NoError(t, err)
	require.Len(t, p.Coordination.Checks, 1)
	d, err := artifact.ReadJSON[check.Definition](t.Context(), f.store, check.Key(artifact.InBucket("s2"), p.Coordination.Checks[0]))
	require.NoError(t, err)
	require.True(t, d.User)
	for want, files := range map[string]map[string]string{
		"neither an executable file nor checks.yaml": {"notes.md": "x"},
		"entry 1 has no command":                     {"checks.yaml": "- {name: u}\n"},
	} {
		g := newFloor(t)
		g.Teams.Named[activities.DefaultTeam] = deciding
		f.store = g.store
		f.Store = g.store
		reference := upload(files)
		_, err := g.prepare(PrepareInput{Checks: reference})
		require.ErrorContains(t, err, want)
	}
}
