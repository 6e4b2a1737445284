//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

const (
	shopExample = "../../../examples/scenarios"
	exampleAddr = "127.0.0.1:8451" // as the example's files have it
	secret      = "light-of-1843"  // of the example's prd.md
)

// shop is the example of scenarios in a user's home: the page and the scripted
// model that it comes with, and Playwright's MCP server with the system's Chromium.
type shop struct {
	*cli
	site    string // its binary
	address string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	npm := os.Getenv("CONCLAVE_NPM")
	if npm == "" {
		t.Skip("CONCLAVE_NPM does not name a directory with node_modules")
	}
	bin := filepath.Join(npm, "node_modules", ".bin")
	require.FileExists(t, filepath.Join(bin, "playwright-mcp"))
	for _, program := range []string{"node", "chromium"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("no " + program)
		}
	}
	s := &shop{cli: newCLI(t), site: filepath.Join(t.TempDir(), "site")}
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.site, shopExample+"/site").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.CopyFS(filepath.Join(s.home, "shop"), os.DirFS(shopExample+"/shop")))
	return s
}

// opens serves the shop, and has the project's files name its address.
func (s *shop) opens(flags ...string) *background {
	s.t.Helper()
	at := s.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	site := s.startProgram(s.site, append([]string{"-address", at}, flags...)...)
	site.prints(s.t, "/v1")
	if s.address == "" {
		s.address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(site.log.String())
		chromium, err := exec.LookPath("chromium")
		require.NoError(s.t, err)
		browser := "--executable-path=" + chromium
		if os.Getuid() == 0 {
			browser += "\n          - --no-sandbox"
		}
		for _, name := range []string{"prd.md", "conclave.yaml"} {
			file := filepath.Join(s.home, "shop", name)
			text := strings.ReplaceAll(content(s.t, file), exampleAddr, s.address)
			text = strings.ReplaceAll(text, "--executable-path=/usr/bin/chromium", browser)
			require.NoError(s.t, os.WriteFile(file, []byte(text), 0o600))
		}
	}
	return site
}

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// runs is the folder of a scenario's runs, and the runs in it.
func (s *shop) runs(slug string) (folder string, ids []string) {
	s.t.Helper()
	folder = filepath.Join(s.home, "shop", "scenarios", slug, "runs")
	entries, err := os.ReadDir(folder)
	require.NoError(s.t, err)
	for _, e := range entries {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return folder, ids
}

func statuses(r scenario.Run) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, string(s.Status))
	}
	return strings.Join(all, " ")
}

// The example as its README has it: a browser, screenshots, all scenarios at once.
func TestScenariosInABrowser(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.opens()
	out := s.conclave("scenario", "run", "shop", "--all", "--junit", "report.xml")
	require.Equal(t, 0, out.code)
	require.Regexp(t, `(?m)^buy +#1 +pass +3/3 `, out.stdout)
	require.Regexp(t, `(?m)^sign-in +#1 +pass +2/2 `, out.stdout)

	folder, ids := s.runs("buy")
	require.Len(t, ids, 1)
	var run scenario.Run
	readFile(t, filepath.Join(folder, ids[0], "result.json"), &run)
	require.Equal(t, "pass pass pass", statuses(run))
	for _, step := range run.Steps {
		require.Equal(t, []string{"step-" + step.ID + "/evidence/after.png", "step-" + step.ID + "/evidence/before.png"}, step.EvidencePaths)
		require.Empty(t, step.Warnings)
		for _, path := range step.EvidencePaths {
			picture, err := png.Decode(strings.NewReader(content(t, filepath.Join(folder, ids[0], path))))
			require.NoError(t, err)
			require.Greater(t, picture.Bounds().Dx(), 100)
			var about scenario.Evidence
			readFile(t, filepath.Join(folder, ids[0], strings.TrimSuffix(path, ".png")+".meta.json"), &about)
			require.Equal(t, "screenshot", about.Type)
			require.Equal(t, step.ID, about.StepID)
		}
	}
	require.Contains(t, content(t, filepath.Join(s.home, "shop/scenarios/buy/meta.yaml")), "pass_count: 1")
	require.Contains(t, content(t, filepath.Join(s.home, "report.xml")), `tests="5" failures="0" errors="0" skipped="0"`)
	require.Contains(t, s.conclave("scenario", "status", "shop").stdout, "2 scenarios: 2 passing, 0 failing, 0 never run")

	// The password was used, and is nowhere but in prd.md.
	require.NoError(t, filepath.WalkDir(filepath.Join(s.home, "shop", "scenarios"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			require.NotContains(t, content(t, path), secret, path)
		}
		return err
	}))
	require.NotContains(t, out.stdout+out.stderr, secret)
}

// A page that does not do what the step expects: exit 2, the rest is skipped, and
// once the page is mended the run goes on from there.
func TestScenarioOfABrokenPage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	site := s.opens("-broken")
	out := s.conclave("scenario", "run", "shop", "buy", "--automation", "--junit", "report.xml")
	require.Equal(t, 2, out.code)
	var run scenario.Run
	out.lastLine(t, &run)
	require.Equal(t, scenario.Fail, run.Status)
	require.Equal(t, "pass fail skipped", statuses(run))
	require.Contains(t, *run.Steps[1].Error, "Lamps in your basket: 0")
	require.Len(t, run.Steps[1].EvidencePaths, 2)

	var report struct {
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	require.NoError(t, xml.Unmarshal([]byte(content(t, filepath.Join(s.home, "report.xml"))), &report))
	require.Equal(t, [2]int{1, 1}, [2]int{report.Failures, report.Skipped})
	require.Contains(t, report.Cases[1].Failure.Message, "Lamps in your basket: 0")
	require.Contains(t, content(t, filepath.Join(s.home, "shop/scenarios/buy/meta.yaml")), "fail_count: 1")

	require.NoError(t, site.Process.Kill())
	site.ends(t)
	s.opens()
	out = s.conclave("scenario", "run", "shop", "buy", "--automation", "--retry", run.RunID)
	require.Equal(t, 0, out.code)
	var again scenario.Run
	out.lastLine(t, &again)
	require.Equal(t, "pass pass pass", statuses(again))
	require.Equal(t, run.RunID, again.RunID)
	require.Equal(t, run.RunNumber, again.RunNumber)
	require.Equal(t, run.Steps[0], again.Steps[0], "what had passed was not done again")
	require.Contains(t, content(t, filepath.Join(s.home, "shop/scenarios/buy/meta.yaml")), "total_runs: 1")
	require.Equal(t, 1, s.conclave("scenario", "run", "shop", "buy", "--retry", run.RunID).code, "it passed")
}

func keep(name, data string) reply {
	return reply{tool: "record_evidence", arguments: map[string]any{"name": name, "type": "console_log", "data": data}}
}

func pass(summary string) reply {
	return reply{tool: "report_result", arguments: map[string]any{
		"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": summary,
	}}
}

// The process is killed in a step: what came before is in the project already, what
// the store has is brought by status, and the run goes on with watch.
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

	// What the killed process had not copied is brought by a look.
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

	// The definition may change meanwhile: the run is of the one that it began with.
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Another thing.").code)
	out := c.conclave("scenario", "watch", "shop", "buy", "--automation")
	require.Equal(t, 0, out.code)
	var result scenario.Run
	out.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))
	require.Equal(t, 1, result.RunNumber)
	require.Equal(t, 5, model.calls("model-a"), "one call is paid twice")
	require.Contains(t, model.request("model-a", 3), "The second thing.")
	require.NotContains(t, model.request("model-a", 3), "quiet", "a step is told nothing of what the one before it found")
	require.NotContains(t, model.request("model-a", 3), "The first thing.")
	require.Contains(t, model.request("model-a", 3), "step 01: pass")
	require.Contains(t, content(t, filepath.Join(c.home, "shop/scenarios/buy/meta.yaml")), "pass_count: 1")
}

// A run that is cancelled is completed, too, and counted.
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
}

// Ctrl-C loses nothing and says how to go on.
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

// Who is terminated cannot complete anything: the run looks as if it went on, until
// it is gone on with.
func TestScenarioIsTerminated(t *testing.T) {
	t.Parallel()
	atWork, over := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{"model-a": {pass("It opened."), pass("Lost.").during(func() { close(atWork); <-over }), pass("Done.")}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Do it.", "--step", "Buy: Do it.").code)
	dev := c.start("dev", "--config", team)
	at := address(t, dev)
	run := c.start("scenario", "run", "shop", "buy", "--config", team)
	<-atWork
	found, err := filepath.Glob(filepath.Join(c.home, "shop/scenarios/buy/runs/*/result.json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	id := filepath.Base(filepath.Dir(found[0]))
	require.Contains(t, c.conclave("scenario", "run", "shop", "buy", "--config", team, "--retry", id).stderr, "it goes on still")
	require.Equal(t, 0, c.temporal("workflow", "terminate", "--address", at, "--workflow-id", "scenario-buy-"+id).code)
	close(over)
	require.Equal(t, 2, run.ends(t))
	require.Contains(t, run.log.String(), "--retry "+id)

	out := c.conclave("scenario", "run", "shop", "buy", "--config", team, "--retry", id, "--automation")
	require.Equal(t, 0, out.code)
	var result scenario.Run
	out.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))
	require.Equal(t, 1, result.RunNumber)
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}
