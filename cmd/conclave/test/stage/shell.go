package stage

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/scenario"
	"conclave/engine/session/check"
	"conclave/engine/session/quality"
)

// Shell is an empty directory that serves as home and working directory.
type Shell struct {
	T    *testing.T
	Home string

	commands func(*cli.CLI) []*cobra.Command
}

// NewShell returns a shell with these commands. It clears the environment variables that
// conclave reads.
func NewShell(t *testing.T, commands func(*cli.CLI) []*cobra.Command) Shell {
	t.Helper()
	if len(os.Args) > 1 && os.Args[1] == local.ChildCommand {
		// A command under test tried to start the embedded stack by executing its own
		// program, which here would run the tests again and again.
		fmt.Fprintln(os.Stderr, "a test binary has no embedded stack")
		os.Exit(1)
	}
	home := t.TempDir()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"TEMPORAL_", "AWS_", "OPENAI_", "XDG_", name} {
			if strings.HasPrefix(name, prefix) && (prefix != name || strings.HasSuffix(name, "_API_KEY")) {
				t.Setenv(name, "") // restores the value after the test
				require.NoError(t, os.Unsetenv(name))
			}
		}
	}
	t.Setenv("HOME", home)
	t.Chdir(home)
	return Shell{T: t, Home: home, commands: commands}
}

// Run executes a command line.
func (s Shell) Run(args ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	return s.RunUntil(s.T.Context(), args...)
}

// RunUntil executes a command line and interrupts it when ctx ends.
func (s Shell) RunUntil(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	var out, errs bytes.Buffer
	c := &cli.CLI{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	root := &cobra.Command{Use: "conclave"}
	root.AddCommand(s.commands(c)...)
	code = c.Execute(ctx, root, args)
	return code, out.String(), errs.String()
}

// File writes a file into the home directory.
func (s Shell) File(name, content string) {
	s.T.Helper()
	require.NoError(s.T, os.WriteFile(filepath.Join(s.Home, name), []byte(content), 0o600))
}

// StartedNothing fails the test if a data directory was created.
func (s Shell) StartedNothing() {
	s.T.Helper()
	require.NoDirExists(s.T, filepath.Join(s.Home, ".local"))
}

// Report prints an error as the command would, and returns its exit code.
func Report(c *cli.CLI, err error) int {
	root := &cobra.Command{Use: "conclave", RunE: func(*cobra.Command, []string) error { return err }}
	return c.Execute(context.Background(), root, nil)
}

// PipelineRun is a pipeline's run in progress, in its own store.
type PipelineRun struct {
	t      testing.TB
	ID     string
	Dir    string
	Store  *artifact.Dir
	Layout artifact.Layout
	view   pipeline.View
	now    time.Time
}

// NewPipelineRun starts a run of the steps main, decide and export.
func NewPipelineRun(t testing.TB, id string) *PipelineRun {
	t.Helper()
	dir := t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	r := &PipelineRun{t: t, ID: id, Dir: dir, Store: store, Layout: artifact.InPipeline(id), now: Began, view: pipeline.View{Stack: []string{}, Trace: []pipeline.TraceEntry{}}}
	r.putJSON(r.Layout.File("pipeline.json"), map[string]any{"request": "Write a haiku.", "created_at": Began, "workflow_id": id})
	r.putJSON(r.Layout.File("config.json"), map[string]any{"steps": []map[string]any{{"name": "main", "history": true}, {"name": "decide"}, {"name": "export"}}})
	r.Status("running")
	return r
}

func (r *PipelineRun) putJSON(key string, document any) {
	r.t.Helper()
	require.NoError(r.t, artifact.PutJSON(r.t.Context(), r.Store, key, document))
}

// Status writes the status of the run.
func (r *PipelineRun) Status(status string) {
	r.t.Helper()
	r.putJSON(r.Layout.File("status.json"), struct {
		ID      string `json:"id"`
		Request string `json:"request"`
		Status  string `json:"status"`
		pipeline.View
	}{r.ID, "Write a haiku.", status, r.view})
}

// Visit adds a visit of a step with a text. If team is not empty, a session decided it.
func (r *PipelineRun) Visit(seconds float64, step, text, team string) {
	r.t.Helper()
	number := len(r.view.Trace) + 1
	dir := r.Layout.PipelineStep(number, step, "")
	launch := fmt.Sprintf("l%d", number)
	r.putJSON(dir+"step.json", artifact.Claim{Token: "r-1-" + launch, StartedAt: r.now})
	r.now = r.now.Add(time.Duration(seconds * float64(time.Second)))
	r.putJSON(dir+"action.json", artifact.Commit{Token: "r-1-" + launch, Kind: "end", Timestamp: r.now})
	r.putJSON(dir+"answer.json", artifact.Answer{AgentID: step, Answer: text, Timestamp: r.now})
	sum, err := artifact.PutBlob(r.t.Context(), r.Store, r.Layout, []byte(text+"\n"))
	require.NoError(r.t, err)
	r.putJSON(dir+"workspace.json", artifact.Manifest{Files: []artifact.File{{Path: "haiku.txt", Size: int64(len(text) + 1), SHA256: sum}}})
	require.NoError(r.t, r.Store.Put(r.t.Context(), dir+"transcript.jsonl", emptyFile()))
	if team != "" {
		r.putJSON(artifact.InBucket(fmt.Sprintf("%s-%s-%s", r.ID, step, launch)).File("session.json"), artifact.Session{Query: text, CreatedAt: r.now})
	}
	r.view.Trace = append(r.view.Trace, pipeline.TraceEntry{Number: number, Step: step, Status: pipeline.Completed, Text: text, Team: team})
	r.Status("running")
}

// End writes the result of the run.
func (r *PipelineRun) End(final string) {
	r.t.Helper()
	r.putJSON(r.Layout.File("result.json"), map[string]any{"trace": r.view.Trace, "final": final})
	r.Status("completed")
}

// Check ends the checks of an agent's newest answer after some seconds. Each character of
// verdicts is the outcome of a check: '1' passed, '0' failed, '?' could not be run.
func (p *Play) Check(seconds float64, agent, verdicts string) {
	p.t.Helper()
	p.advanceClock(seconds)
	c, out := p.checking[agent]
	require.True(p.t, out, "no checks of %s are out", agent)
	require.Len(p.t, verdicts, len(c.Checks))
	delete(p.checking, agent)
	listed := []check.Result{}
	for i, id := range c.Checks {
		if verdicts[i] != '?' { // such a check leaves no result
			passed := verdicts[i] == '1'
			listed = append(listed, check.Result{
				Check: id, Name: "name of " + id, Passed: passed, ExitCode: new(map[bool]int{true: 0, false: 1}[passed]), Seconds: 0.5, Output: "output of " + id,
			})
		}
	}
	p.putJSON(p.Layout.Step(agent, c.Answer.Step, "checks.json"), listed)
	p.State.Step(coordination.Checked{ID: c.ID, Verdicts: verdicts})
	p.drainCommands()
}

// Evaluate ends the evaluation of an agent's answer with a verdict and scores for the criteria
// E1, E2, … The verdict iterate includes a plan.
func (p *Play) Evaluate(seconds float64, agent string, verdict coordination.RoundVerdict, scores ...float64) {
	p.t.Helper()
	l := p.runningStep(seconds, agent)
	require.Equal(p.t, coordination.Evaluation, l.Purpose)
	judged := quality.Rating{Verdict: verdict, Scores: map[string]float64{}}
	for i, s := range scores {
		judged.Scores[fmt.Sprintf("E%d", i+1)] = s
	}
	end := p.endStep(l, string(coordination.SubmitEvaluation), judged, "")
	p.putJSON(l.dir+"verdict.json", judged)
	p.writeFile(l.dir+"critique_packet.md", []byte("# Evaluation\n\n## preserve\n\nThe **first** sentence.\n"))
	ceiling := coordination.CeilingReached
	if verdict == coordination.Iterate {
		ceiling = coordination.CeilingNotReached
		p.putJSON(l.dir+"next_tasks.json", map[string]any{
			"objective": "Say where the market is.", "approach_assessment": map[string]any{"ceiling_status": ceiling, "ceiling_explanation": "There is room."},
			"tasks":    []map[string]string{{"id": "t1", "description": "Name the street.", "verification": "the street is named"}},
			"preserve": []string{"the first sentence"},
		})
	}
	p.State.Step(coordination.Critiqued{End: end, Verdict: verdict, Scores: judged.RoundScores(), Ceiling: ceiling, Tasks: verdict == coordination.Iterate})
	p.drainCommands()
}

// Scenario writes the run r1 of the scenario sign-in to a directory: one step passed at its
// second attempt, another one failed. It returns the directory and the layout of the run.
func Scenario(t testing.TB) (dir string, layout artifact.Layout) {
	t.Helper()
	dir = t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	layout = artifact.InScenario("sign-in", "r1")
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 900, 600))))
	for name, content := range map[string][]byte{
		"step-01/evidence/form.png": picture.Bytes(), "step-02/evidence/console.log": []byte("POST /sign-in 500\n"),
		"step-02/evidence/trace.zip": {0, 1, 2}, "secret.txt": []byte("not evidence"),
	} {
		require.NoError(t, store.Put(t.Context(), layout.File(name), bytes.NewReader(content)))
	}
	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("result.json"), SignIn()))
	return dir, layout
}

// SignIn returns the result of the run that Scenario writes.
func SignIn() scenario.Run {
	usd, slow, broken, ended := 0.012, "the page took 30 s", "POST /sign-in answers <b>500</b>", "2026-11-22T09:01:10Z"
	return scenario.Run{
		RunID: "r1", RunNumber: 1, Scenario: "sign-in", Title: "A customer signs in", Status: scenario.Fail, StartedAt: "2026-11-22T09:00:00Z", CompletedAt: &ended, DurationMS: 70_000,
		Steps: []scenario.Result{
			{
				ID: "01", Title: "Open the form", Status: scenario.Pass, Flaky: true, DurationMS: 40_000, Summary: "The form is there.",
				EvidencePaths: []string{"step-01/evidence/form.png"}, Cost: llm.Usage{ModelCalls: 3, InputTokens: 4000, OutputTokens: 200, TotalUSD: &usd},
				Attempts: []scenario.Attempt{{Status: scenario.Fail, Error: &slow}, {Status: scenario.Pass, EvidencePaths: []string{"step-01/evidence/form.png"}}},
			},
			{
				ID: "02", Title: "Sign in", Status: scenario.Fail, DurationMS: 30_000, Error: &broken,
				EvidencePaths: []string{"step-02/evidence/console.log", "step-02/evidence/trace.zip"},
			},
			{ID: "03", Title: "Sign out", Status: scenario.Skipped},
		},
	}
}
