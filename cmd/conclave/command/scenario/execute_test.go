package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

// theater is a project with two scenarios, a cluster that plays them and its store.
type theater struct {
	t              *testing.T
	order          *order
	server         *stage.Server
	conn           *cli.Connection
	store          *artifact.Dir
	stdout, stderr interface{ String() string }
}

// newTheater loads the scenarios whose steps end with these statuses.
func newTheater(t *testing.T, f flags, ends map[string]scenario.Status) *theater {
	t.Helper()
	dir := t.TempDir()
	from, err := MakeProject(dir)
	require.NoError(t, err)
	t.Cleanup(from.Close)
	for _, slug := range []string{"buy", "leave"} {
		plan := scenario.Plan{Slug: slug, Title: "To " + slug, Steps: []scenario.StepRef{{ID: "01", Title: "Open", File: "01-open.md"}}}
		_, err := from.Save(plan, map[string]string{"01-open.md": "Open the page."}, nil)
		require.NoError(t, err)
	}
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	f.all, f.parallel, f.stepTimeout = true, 1, time.Minute
	th := &theater{t: t, store: store, server: &stage.Server{}, order: &order{flags: f, dir: dir, project: from, tester: config.Default(), source: "team.yaml"}}
	th.server.Starts = func(e *stage.Execution) error { return th.play(e, ends) }
	conn, stdout, stderr := th.server.Connect(store)
	th.conn, th.stdout, th.stderr = conn, stdout, stderr
	require.NoError(t, th.order.loadRuns(""))
	return th
}

// play writes result.json as a worker does, and ends the workflow.
func (th *theater) play(e *stage.Execution, ends map[string]scenario.Status) error {
	in := e.Input.(scenarioflow.Input)
	status := ends[in.Plan.Slug]
	if status == "" {
		return errors.New("no such scenario")
	}
	at := time.Now().UTC().Format(time.RFC3339)
	step := scenario.Result{ID: "01", Title: "Open", File: "01-open.md", Status: status, DurationMS: 1500, EvidencePaths: []string{"step-01/evidence/page.txt"}, Summary: "Done.", Attempts: []scenario.Attempt{}}
	if status != scenario.Pass {
		step.Error = new("saw no | page")
	}
	result := map[string]any{
		"run_id": in.RunID, "run_number": 3, "run_path": "x", "scenario": in.Plan.Slug, "title": in.Plan.Title, "status": status, "started_at": at, "completed_at": at,
		"duration_ms": 2500, "steps": []scenario.Result{step}, "execution": 1,
	}
	data, err := json.Marshal(result)
	require.NoError(th.t, err)
	root := artifact.InScenario(in.Plan.Slug, in.RunID)
	for key, body := range map[string]string{root.File("result.json"): string(data), root.File("step-01/evidence/page.txt"): "a page", root.File("step-01/evidence/page.meta.json"): "{}"} {
		require.NoError(th.t, th.store.Put(th.t.Context(), key, strings.NewReader(body)))
	}
	e.State = result
	e.End(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, result, nil)
	return nil
}

func (th *theater) execute() error {
	th.t.Helper()
	return executeRuns(th.t.Context(), th.conn, th.order)
}

// Results and evidence of all runs are in the project when the command ends.
func TestExecute(t *testing.T) {
	t.Parallel()
	junit := filepath.Join(t.TempDir(), "report.xml")
	th := newTheater(t, flags{junit: junit}, map[string]scenario.Status{"buy": scenario.Pass, "leave": scenario.Pass})
	th.conn.Pages = "http://127.0.0.1:9"
	require.NoError(t, th.execute())
	require.Contains(t, th.stderr.String(), "their pages: http://127.0.0.1:9/\n")
	require.Regexp(t, `(?m)^buy +#3 +pass +1/1 +2.5 s$`, th.stdout.String())
	require.Regexp(t, `(?m)^leave +#3 +pass`, th.stdout.String())
	require.Contains(t, th.stderr.String(), "2 scenarios at h:7233 in the namespace default, agent from team.yaml: ")
	require.Contains(t, th.stderr.String(), "buy 01 Open: pass (1.5 s)\n")
	for _, r := range th.order.runs {
		require.Contains(t, th.stdout.String(), "results and evidence: "+th.order.project.Path(r.slug, "runs", r.id))
		evidence, err := os.ReadFile(th.order.project.Path(r.slug, "runs", r.id, "step-01", "evidence", "page.txt"))
		require.NoError(t, err)
		require.Equal(t, "a page", string(evidence))
		started := th.server.Find(r.asRun().Workflow)
		in := started.Input.(scenarioflow.Input)
		require.Equal(t, 60, in.StepTimeoutSeconds)
		require.NotEmpty(t, in.Config, "a cluster's worker reads the team from the input")
		require.Equal(t, r.id, started.Memo[scenarioflow.MemoRun])
	}
	data, err := os.ReadFile(junit)
	require.NoError(t, err)
	require.Contains(t, string(data), `tests="2" failures="0" errors="0"`)
	status, err := th.order.project.Fold(t.Context(), "buy")
	require.NoError(t, err)
	require.Equal(t, 1, status.TotalRuns)
}

// If one run does not pass, the exit code says so, and the table has its reason.
func TestExecute_aFailure(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{}, map[string]scenario.Status{"buy": scenario.Fail, "leave": scenario.Pass})
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(th.execute()))
	require.Regexp(t, `(?m)^buy +#3 +fail +0/1 +2.5 s +01 Open: saw no \| page$`, th.stdout.String())
	require.Regexp(t, `(?m)^leave +#3 +pass`, th.stdout.String())
}

func TestExecute_failFast(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{failFast: true}, map[string]scenario.Status{"buy": scenario.Fail, "leave": scenario.Pass})
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(th.execute()))
	require.Regexp(t, `(?m)^leave +– +not run +0/1`, th.stdout.String())
	require.Contains(t, th.stderr.String(), "scenario leave was not started because of --fail-fast: buy did not pass")
	require.True(t, th.order.runs[1].absent)
	require.NoDirExists(t, th.order.project.Path("leave", "runs"))
}

// Programs get every result, and the reasons of those that are missing.
func TestExecute_forPrograms(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{}, map[string]scenario.Status{"buy": scenario.Pass})
	th.conn.Automation = true
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(th.execute()))
	lines := strings.Split(strings.TrimSpace(th.stdout.String()), "\n")
	var all allRuns
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &all))
	require.Equal(t, scenario.Fail, all.Status)
	require.Len(t, all.Runs, 1)
	require.Len(t, all.Errors, 1)
	require.Contains(t, all.Errors[0], "leave: start scenario leave at h:7233 in the namespace default: no such scenario")
	require.NoDirExists(t, th.order.project.Path("leave", "runs", th.order.runs[1].id, "result.json"))
}

// A worker that refuses the input leaves no run behind.
func TestExecute_refused(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{}, nil)
	th.order.runs = th.order.runs[:1]
	th.server.Starts = func(e *stage.Execution) error {
		e.State = map[string]any{} // a worker answers
		e.End(enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, nil, stage.Failed(t, temporal.NewNonRetryableApplicationError("there is no provider x", activities.ConfigInvalid, nil)))
		return nil
	}
	err := th.execute()
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.Contains(t, th.stderr.String(), "of scenario buy: there is no provider x")
	runs, _, err := th.order.project.Runs("buy")
	require.NoError(t, err)
	require.Empty(t, runs)
}

// The error of a run that Temporal has ended names the reason and the command that continues it.
func TestExecute_cutOff(t *testing.T) {
	t.Parallel()
	for want, ended := range map[string]error{
		"the timeout with which the workflow was started ran out; `conclave scenario run": temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil),
		"of scenario buy: the store is down":                                              temporal.NewNonRetryableApplicationError("the store is down", "Storage", nil),
	} {
		th := newTheater(t, flags{}, nil)
		th.order.runs = th.order.runs[:1]
		th.server.Starts = func(e *stage.Execution) error {
			e.State = map[string]any{} // a worker answers
			e.End(enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, nil, stage.Failed(t, ended))
			return nil
		}
		require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(th.execute()))
		require.Contains(t, th.stderr.String(), want)
		r := th.order.runs[0]
		require.FileExists(t, th.order.project.Path("buy", "runs", r.id, "result.json"), "it can be continued")
	}
}

// An ID cannot be used by two runs.
func TestExecute_theIDIsInUse(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{id: "release-42"}, map[string]scenario.Status{"buy": scenario.Pass, "leave": scenario.Pass})
	th.server.Add(&stage.Execution{ID: "scenario-buy-release-42", Type: scenarioflow.Type, Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED})
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(th.execute()))
	require.Contains(t, th.stderr.String(), "start run release-42 of scenario buy: the ID is in use at h:7233 in the namespace default; choose another --session-id")
	require.Regexp(t, `(?m)^leave +#3 +pass`, th.stdout.String())
}

// An interrupted command prints how the run continues, and the run is kept.
func TestExecute_interrupted(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{}, nil)
	th.order.runs = th.order.runs[:1]
	ctx, cancel := context.WithCancel(t.Context())
	th.server.Starts = func(*stage.Execution) error { cancel(); return nil }
	err := executeRuns(ctx, th.conn, th.order)
	require.Equal(t, cli.ExitInterrupted, cli.ExitCode(err))
	r := th.order.runs[0]
	require.ErrorContains(t, r.problem, "interrupted: nothing of run "+r.id+" of scenario buy is lost; `conclave scenario watch")
	require.DirExists(t, th.order.project.Path("buy", "runs", r.id))
}

// A cluster without a bucket keeps the evidence; the result comes from the workflow.
func TestExecute_withoutABucket(t *testing.T) {
	t.Parallel()
	th := newTheater(t, flags{}, map[string]scenario.Status{"buy": scenario.Pass})
	th.order.runs, th.conn.Store = th.order.runs[:1], nil
	require.NoError(t, th.execute())
	require.Contains(t, th.stderr.String(), "evidence stays in the cluster's bucket; name it with --bucket (and --prefix)")
	r := th.order.runs[0]
	require.FileExists(t, th.order.project.Path("buy", "runs", r.id, "result.json"))
	require.NoDirExists(t, th.order.project.Path("buy", "runs", r.id, "step-01"))
}
