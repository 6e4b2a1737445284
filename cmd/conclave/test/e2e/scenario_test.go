//go:build e2e

package e2e

import (
	"encoding/xml"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

const (
	shopExample = "../../../../examples/scenarios"
	exampleAddr = "127.0.0.1:8451" // as the example's files have it
	secret      = "light-of-1843"  // of the example's prd.md
)

// shop is the example of scenarios in a user's home: its page and scripted model, and Playwright's
// MCP server with the system's Chromium.
type shop struct {
	*e2eCLI
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
	s := &shop{e2eCLI: newCLI(t), site: filepath.Join(t.TempDir(), "site")}
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.site, shopExample+"/site").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.CopyFS(filepath.Join(s.home, "shop"), os.DirFS(shopExample+"/shop")))
	return s
}

// opens serves the shop and writes its address into the project's files.
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
		s.trusts()
	}
	return site
}

// trusts gives the user's consent to the tester that is found in the project.
func (s *shop) trusts() {
	s.t.Helper()
	require.Equal(s.t, 0, s.conclave("config", "trust", filepath.Join(s.home, "shop", "conclave.yaml")).code)
}

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// runs returns the folder of a scenario's runs, and the runs.
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

// The example of the README: a browser, screenshots, all scenarios at once.
func TestScenariosInABrowser(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.opens()
	out := s.conclave("scenario", "run", "shop", "--all", "--junit", "report.xml")
	require.Equal(t, 0, out.code)
	require.Regexp(t, `(?m)^buy +#1 +pass +3/3 `, out.stdout)
	require.Regexp(t, `(?m)^sign-in +#1 +pass +2/2 `, out.stdout)
	require.Regexp(t, `their pages: http://127\.0\.0\.1:\d+/\nin Temporal: http://`, out.stderr)

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

	// The password was used, and is only in prd.md.
	require.NoError(t, filepath.WalkDir(filepath.Join(s.home, "shop", "scenarios"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			require.NotContains(t, content(t, path), secret, path)
		}
		return err
	}))
	require.NotContains(t, out.stdout+out.stderr, secret)
}

// A page that fails a step: exit code 2, the other steps are skipped, and the run continues from
// that step once the page is fixed.
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
	before := content(t, filepath.Join(s.home, "shop/scenarios/buy/runs", run.RunID, "step-02/evidence/after.png"))
	out = s.conclave("scenario", "run", "shop", "buy", "--automation", "--retry", run.RunID, "--junit", "report.xml")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, "buy 02 Put the lamp in the basket: pass, flaky: attempt 2")
	require.NotContains(t, out.stdout, "in the basket: fail", "that was the run before")
	var again scenario.Run
	out.lastLine(t, &again)
	require.Equal(t, "pass pass pass", statuses(again))
	require.Equal(t, run.RunID, again.RunID)
	require.Equal(t, run.RunNumber, again.RunNumber)
	require.Equal(t, run.Steps[0], again.Steps[0], "the passed step did not run again")
	require.Contains(t, content(t, filepath.Join(s.home, "shop/scenarios/buy/meta.yaml")), "total_runs: 1")
	require.Equal(t, 1, s.conclave("scenario", "run", "shop", "buy", "--retry", run.RunID).code, "it passed")

	// The failure is kept, and every report says flaky.
	require.True(t, again.Steps[1].Flaky)
	require.Equal(t, run.Steps[1].Attempts[0], again.Steps[1].Attempts[0])
	require.Equal(t, []string{"step-02/attempt-2/evidence/after.png", "step-02/attempt-2/evidence/before.png"}, again.Steps[1].EvidencePaths)
	require.Equal(t, before, content(t, filepath.Join(s.home, "shop/scenarios/buy/runs", run.RunID, "step-02/evidence/after.png")))
	require.FileExists(t, filepath.Join(s.home, "shop", again.RunPath, "step-02/attempt-2/evidence/after.png"))
	require.Contains(t, content(t, filepath.Join(s.home, "shop/scenarios/buy/meta.yaml")), "flaky_count: 1")
	require.Contains(t, content(t, filepath.Join(s.home, "report.xml")), `<flakyFailure message="expected &#34;Lamps in your basket: 1&#34;`)
	require.Contains(t, content(t, filepath.Join(s.home, "report.xml")), "[[ATTACHMENT|shop/scenarios/buy/runs/"+run.RunID+"/step-02/evidence/after.png]]")
	require.Contains(t, s.conclave("scenario", "status", "shop", "buy").stdout, "pass (flaky)")
	require.Contains(t, s.conclave("transcript", "buy/"+run.RunID, "02", "1").stdout, "Lamps in your basket: 0")
	require.Contains(t, s.conclave("files", run.RunID, "step-02/attempt-2/").stdout, "step-02/attempt-2/evidence/after.png")
	require.Contains(t, s.conclave("export", "buy/"+run.RunID, "--format", "jsonl").stdout, `"agent":"02","step":2`)
}
