package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

func open(t *testing.T, dir string) *Project {
	t.Helper()
	p, err := MakeProject(dir)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func save(t *testing.T, p *Project, slug string, titles ...string) saved {
	t.Helper()
	d := scenario.Definition{Title: "A scenario"}
	for _, title := range titles {
		step, err := scenario.ParseStep(title + ": Do it.")
		require.NoError(t, err)
		d.Steps = append(d.Steps, step)
	}
	plan, files, err := d.Plan(slug)
	require.NoError(t, err)
	saved, err := p.Save(plan, files, nil)
	require.NoError(t, err)
	return saved
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

func runResult(t *testing.T, r scenario.Run) string {
	t.Helper()
	data, err := json.Marshal(r)
	require.NoError(t, err)
	return string(data)
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "new", "shop"))
	slugs, err := p.Slugs()
	require.NoError(t, err)
	require.Empty(t, slugs)
	require.True(t, save(t, p, "buy", "Open", "Buy!").New)
	require.FileExists(t, p.Path("buy", "steps", "02-buy.md"))

	d, err := p.Load("buy", Values{})
	require.NoError(t, err)
	require.Equal(t, "A scenario", d.Plan.Title)
	require.Equal(t, []scenario.StepRef{{ID: "01", Title: "Open", File: "01-open.md"}, {ID: "02", Title: "Buy!", File: "02-buy.md"}}, d.Plan.Steps)
	require.Equal(t, "# 01 Open\n\n## Actions\n\nDo it.\n", d.Files["01-open.md"])
	require.Empty(t, d.PRD)

	written, err := p.Template()
	require.NoError(t, err)
	require.True(t, written)
	write(t, filepath.Join(p.Dir(), "prd.md"), "## Base URL\nhttp://x\n")
	written, err = p.Template()
	require.NoError(t, err)
	require.False(t, written, "the author's text stays")
	d, err = p.Load("buy", Values{})
	require.NoError(t, err)
	require.Equal(t, "## Base URL\nhttp://x\n", d.PRD)
}

// Saving again replaces the definition and removes files of removed steps; statistics,
// runs and the author's own keys stay.
func TestSave_again(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open", "Look", "Buy")
	meta := p.Path("buy", "meta.yaml")
	text := strings.Replace(read(t, meta), "total_runs: 0", "total_runs: 7", 1)
	write(t, meta, "# mine\n"+text+"owner: me # do not touch\nstarred: true\n")
	write(t, p.Path("buy", "steps", "README.md"), "for people")

	saved := save(t, p, "buy", "Open", "Pay")
	require.False(t, saved.New)
	require.Equal(t, []string{"02-look.md", "03-buy.md"}, saved.Removed)
	require.FileExists(t, p.Path("buy", "steps", "README.md"))
	text = read(t, meta)
	for _, want := range []string{"# mine\n", "total_runs: 7", "owner: me # do not touch", "starred: true", "file: 02-pay.md"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "03")
}

func TestLoad_refuses(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, outside+"/secret.md", "a secret")
	for name, c := range map[string]struct {
		spoil func(p *Project)
		want  string
	}{
		"no such scenario": {func(p *Project) { require.NoError(t, os.RemoveAll(p.Path("buy"))) }, "there is no scenario buy"},
		"no step file":     {func(p *Project) { require.NoError(t, os.Remove(p.Path("buy", "steps", "01-open.md"))) }, "01-open.md"},
		"an empty step":    {func(p *Project) { write(t, p.Path("buy", "steps", "01-open.md"), " \n") }, "is empty"},
		"no text":          {func(p *Project) { write(t, p.Path("buy", "steps", "01-open.md"), "caf\xe9") }, "not UTF-8"},
		"another's slug":   {func(p *Project) { write(t, p.Path("buy", "meta.yaml"), "slug: sell\n") }, "of its folder"},
		"no steps":         {func(p *Project) { write(t, p.Path("buy", "meta.yaml"), "title: x\n") }, "has 0 steps"},
		"no YAML":          {func(p *Project) { write(t, p.Path("buy", "meta.yaml"), "steps: [\n") }, "meta.yaml"},
		"a list":           {func(p *Project) { write(t, p.Path("buy", "meta.yaml"), "- 1\n") }, "meta.yaml: line 1: a value of the wrong type"},
		"a number":         {func(p *Project) { write(t, p.Path("buy", "meta.yaml"), "title: x\nsteps: 7\n") }, "meta.yaml: line 2: a value of the wrong type"},
		"an unknown value": {func(p *Project) {
			write(t, p.Path("buy", "meta.yaml"), "steps: [{id: '01', title: x, file: 01-open.md}]\non_lost_tools: forget\n")
		}, `on_lost_tools "forget" of scenario buy: it takes begin_again or tell`},
		"a step elsewhere": {func(p *Project) {
			write(t, p.Path("buy", "meta.yaml"), "steps: [{id: '01', title: x, file: ../../../prd.md}]\n")
		}, "steps[0].file"},
		"a link": {func(p *Project) {
			require.NoError(t, os.Remove(p.Path("buy", "steps", "01-open.md")))
			require.NoError(t, os.Symlink(outside+"/secret.md", p.Path("buy", "steps", "01-open.md")))
		}, "not a regular file"},
		"a linked folder": {func(p *Project) {
			require.NoError(t, os.RemoveAll(p.Path("buy", "steps")))
			require.NoError(t, os.Symlink(outside, p.Path("buy", "steps")))
		}, "01-open.md"},
	} {
		p := open(t, t.TempDir())
		save(t, p, "buy", "Open")
		c.spoil(p)
		_, err := p.Load("buy", Values{})
		require.ErrorContains(t, err, c.want, name)
	}
	p := open(t, t.TempDir())
	for _, slug := range []string{"..", "../x", "a/b", "", "A"} {
		_, err := p.Load(slug, Values{})
		require.ErrorContains(t, err, "not a slug")
	}
}

// Runs that end at the same moment are all counted.
func TestFold_parallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	save(t, open(t, dir), "buy", "Open")
	const runs = 12
	var group sync.WaitGroup
	for i := range runs {
		p := open(t, dir)
		group.Go(func() {
			id := "r" + string(rune('a'+i))
			_, err := p.Begin("buy", id, time.Now())
			if err == nil {
				status := []scenario.Status{scenario.Pass, scenario.Fail, scenario.Cancelled}[i%3]
				write(t, p.Path("buy", "runs", id, "result.json"), runResult(t, scenario.Run{
					RunID: id, RunNumber: i + 1, Scenario: "buy", Status: status, StartedAt: "2026-11-21T10:00:00Z", DurationMS: 10,
				}))
				_, err = p.Fold(t.Context(), "buy")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	text := read(t, open(t, dir).Path("buy", "meta.yaml"))
	for _, want := range []string{"total_runs: 12", "pass_count: 4", "fail_count: 4", "cancelled_count: 4", "last_result: cancelled", "avg_duration_ms: 10"} {
		require.Contains(t, text, want)
	}
}

func TestRuns_reportsInvalid(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open")
	write(t, p.Path("buy", "runs", "good", "result.json"), runResult(t, scenario.Run{RunID: "good", Scenario: "buy", Status: scenario.Pass}))
	write(t, p.Path("buy", "runs", "torn", "result.json"), `{"run_id":`)
	write(t, p.Path("buy", "runs", "copied", "result.json"), runResult(t, scenario.Run{RunID: "good", Scenario: "buy", Status: scenario.Pass}))
	write(t, p.Path("buy", "runs", ".hidden", "result.json"), "{}")
	write(t, p.Path("buy", "runs", "notes.txt"), "mine")
	require.NoError(t, os.Mkdir(p.Path("buy", "runs", "empty"), 0o755))
	runs, problems, err := p.Runs("buy")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Len(t, problems, 2)
	_, err = p.Run("buy", "../../x")
	require.ErrorContains(t, err, "not a run id")
	_, err = p.Run("buy", "empty")
	require.ErrorAs(t, err, new(*unknownRunError))

	_, err = p.Begin("buy", "gone", time.Now())
	require.NoError(t, err)
	require.NoError(t, p.Forget("buy", "gone"))
	require.NoDirExists(t, p.Path("buy", "runs", "gone"))
}

// A step's files are copied before the result that names them.
func TestCopy(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open", "Buy")
	put := func(name, content string) {
		require.NoError(t, store.Put(t.Context(), "scenarios/buy/runs/r1/"+name, strings.NewReader(content)))
	}
	at := func(name string) string { return p.Path("buy", "runs", "r1", name) }
	from, err := p.Copy(store, "buy", "r1")
	require.NoError(t, err)
	_, err = from.Update(t.Context())
	require.ErrorIs(t, err, ErrNoRun)

	run := scenario.Run{RunID: "r1", RunNumber: 1, Scenario: "buy", Status: scenario.Running, Steps: []scenario.Result{{ID: "01", Status: scenario.Pass}}}
	put("step-01/evidence/after.png", "a picture")
	put("step-01/evidence/after.png.meta.json", "{}")
	put("step-01/transcript.jsonl", "{}")
	put("step-01/action.json", "{}")
	put("step-02/evidence/before.png", "not yet")
	put("step-02/evidence/error.png", "what went wrong")
	put("journal/x/000001.json", "{}")
	put("result.json", runResult(t, run))
	document, err := from.Update(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, runResult(t, run), string(document))
	require.Equal(t, "a picture", read(t, at("step-01/evidence/after.png")))
	require.FileExists(t, at("step-01/transcript.jsonl"))
	require.NoFileExists(t, at("step-01/action.json"))
	require.NoDirExists(t, at("step-02"), "it has not ended")
	require.NoDirExists(t, at("journal"))

	run.Status, run.Steps = scenario.Fail, append(run.Steps, scenario.Result{ID: "02", Status: scenario.Fail})
	put("result.json", runResult(t, run))
	_, err = from.Update(t.Context())
	require.NoError(t, err)
	require.Equal(t, "not yet", read(t, at("step-02/evidence/before.png")))
	require.FileExists(t, at("step-02/evidence/error.png"))

	// The run is continued, and the step has a second attempt.
	put("step-02/attempt-2/evidence/before.png", "again")
	run.Status, run.Steps[1].Status = scenario.Pass, scenario.Pass
	put("result.json", runResult(t, run))
	_, err = from.Update(t.Context())
	require.NoError(t, err)
	require.Equal(t, "again", read(t, at("step-02/attempt-2/evidence/before.png")))
	require.Equal(t, "not yet", read(t, at("step-02/evidence/before.png")))
	require.JSONEq(t, runResult(t, run), read(t, at("result.json")))

	put("result.json", strings.Replace(runResult(t, run), `"id":"02"`, `"id":"../02"`, 1))
	_, err = from.Update(t.Context())
	require.NoError(t, err, "no step has such a folder")
	_, err = p.Copy(store, "../buy", "r1")
	require.Error(t, err)
	_, err = p.Copy(store, "buy", "../r1")
	require.Error(t, err)
}
