package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

//nolint:funlen // one table
func TestUsageErrors_startNothing(t *testing.T) {
	s := newShell(t)
	s.File("two.yaml", "agents: [{id: a, backend: {type: offline}}, {id: b, backend: {type: offline}}]")
	s.File("money.yaml", "agent: {backend: {type: offline}}\norchestrator: {budget: {max_cost_usd: 1}}")
	s.File("tokens.yaml", "agent: {backend: {type: offline}}\norchestrator: {budget: {max_total_tokens: 9}}")
	s.File("keyless.yaml", "agent: {backend: {model: m, base_url: 'http://127.0.0.1:1/v1', api_key_env: SOME_API_KEY}}")
	s.File("empty.md", "# Nothing\n")
	s.File("latin.md", "## caf\xe9\nGo.\n")
	code, _, stderr := s.Run("scenario", "create", "shop", "buy", "--step", "Open: Go.")
	require.Equal(t, cli.ExitOK, code, stderr)
	code, _, stderr = s.Run("scenario", "create", "mall", "buy", "--step", "Open: Go.")
	require.Equal(t, cli.ExitOK, code, stderr)
	mall, err := OpenProject("mall")
	require.NoError(t, err)
	_, err = mall.Begin("buy", "done-1", time.Now())
	require.NoError(t, err)
	mall.Close()
	long := strings.Repeat("Look", 20<<10)
	for _, tt := range []struct{ line, says string }{
		{"scenario rnu shop", "did you mean `conclave scenario run`?"},
		{"scenario create shop", "create needs SLUG"},
		{"scenario create shop ../buy --step a:b", "not a slug"},
		{"scenario create shop Buy --step a:b", "not a slug"},
		{"scenario create shop sell", "a scenario needs steps"},
		{"scenario create shop sell --step Open", "a title and actions"},
		{"scenario create shop sell --step a:b --from empty.md", "exclude each other"},
		{"scenario create shop sell --from empty.md", "the file has no step"},
		{"scenario create shop sell --from latin.md", "not UTF-8"},
		{"scenario create shop sell --from nowhere.md", "nowhere.md"},
		{"scenario create shop sell --step a:LONG", "at most 65536"},
		{"scenario run", "run needs DIR"},
		{"scenario run shop", "needs SLUG, --all or --tag"},
		{"scenario run shop buy --all", "exclude each other"},
		{"scenario run shop --all --retry r1", "--retry continues a run of one scenario"},
		{"scenario run shop ../buy --offline", "not a slug"},
		{"scenario run shop buy --offline --retry ../r1", "not a run id"},
		{"scenario run shop buy --offline --retry r1", "there is no run r1"},
		{"scenario run shop buy --offline --session-id ../r1", "not a run id"},
		{"scenario run shop buy --offline --session-id r2 --retry r1", "leave one out"},
		{"scenario run mall buy --offline --session-id done-1", "scenario buy has a run done-1 already; choose another --session-id"},
		{"scenario run shop buy --offline --worker-config nowhere.yaml", "read the worker configuration"},
		{"scenario run shop sell --offline", "there is no scenario sell in " + filepath.Join(s.Home, "shop") + "; there are buy"},
		{"scenario run nowhere buy --offline", "there is no directory nowhere"},
		{"scenario run shop buy", "name its file with --config FILE"},
		{"scenario run shop buy --config two.yaml", "exactly one"},
		{"scenario run shop buy --config money.yaml", "money.yaml: orchestrator.budget.max_cost_usd is set"},
		{"scenario run shop buy --offline --config tokens.yaml", "orchestrator.budget.max_total_tokens is set"},
		{"scenario run shop buy --config keyless.yaml", "SOME_API_KEY is not set"},
		{"scenario run shop buy --offline --parallel 0", "at least 1"},
		{"scenario run shop buy --offline --step-timeout 10ms", "it takes 1s to 24h"},
		{"scenario run shop buy --offline --retry r1 --step-timeout 10ms", "it takes 1s to 24h"},
		{"scenario run shop buy --offline --junit nowhere/report.xml", "make the directory first"},
		{"scenario run shop buy --offline --junit shop", "is a directory"},
		{"scenario run shop buy --tag smoke", "exclude each other"},
		{"scenario run shop --tag smoke --offline", "no scenario in " + filepath.Join(s.Home, "shop") + " has the tag smoke; the tags are: "},
		{"scenario run shop --all --only 01", "--only names a step of one scenario"},
		{"scenario run shop buy --only 09 --offline", `has no step "09" to run alone; its steps are 01`},
		{"scenario run shop buy --retry r1 --base-url http://x", "--retry keeps the definition"},
		{"scenario run shop buy --base-url shop.example", "is not an address"},
		{"scenario run shop buy --var TENANT", "--var: \"TENANT\" is not a variable"},
		{"scenario validate", "validate needs DIR"},
		{"scenario validate shop sell", "there is no scenario sell"},
		{"scenario status", "status needs DIR;"},
		{"scenario status shop ..", "not a slug"},
		{"scenario status shop sell", "there is no scenario sell"},
		{"scenario list", "list needs DIR"},
		{"scenario list nowhere", "there is no directory nowhere"},
		{"scenario watch shop buy", "no run of scenario buy is open"},
		{"scenario cancel shop buy r/1", "not a run id"},
		{"scenario pause shop buy r1", "there is no run r1"},
	} {
		args := strings.Fields(tt.line)
		for i := range args {
			args[i] = strings.Replace(args[i], "LONG", long, 1)
		}
		code, stdout, stderr := s.Run(args...)
		require.Equal(t, cli.ExitUsage, code, tt.line)
		require.Empty(t, stdout, tt.line)
		require.Contains(t, stderr, tt.says, tt.line)
	}
	entries, err := os.ReadDir("shop/scenarios")
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was written")
	require.NoDirExists(t, "shop/scenarios/buy/runs")
	s.StartedNothing()

	s.File("conclave.yaml", "agents: [{id: a, backend: {type: offline}}, {id: b, backend: {type: offline}}]")
	code, _, stderr = s.Run("scenario", "run", "shop", "buy")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "2 agents are too many; a step has exactly one, under agents or agent\n"+
		"conclave.yaml was found, not named; name the file of the one agent with --config FILE, or put it into shop/conclave.yaml")
}

func TestCreate_statusAndList(t *testing.T) {
	s := newShell(t)
	s.File("journey.md", "# Buying\n\nFor people.\n\n## Open\nGo.\n\n## Buy\n### Actions\nBuy it.\n### Expected Outcome\nIt is mine.\n")
	code, stdout, stderr := s.Run("scenario", "create", "shop", "buy", "--from", "journey.md", "--tag", "smoke", "--tag", "daily")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "scenario buy written: 2 steps in "+filepath.Join(s.Home, "shop/scenarios/buy"))
	require.Contains(t, stderr, "prd.md tells agents about the application")
	require.Contains(t, stderr, "the text before the first step of journey.md is for people")

	code, stdout, _ = s.Run("scenario", "create", "shop", "buy", "--step", "Only: One step.", "--title", "Shorter", "--json")
	require.Equal(t, cli.ExitOK, code)
	var made created
	require.NoError(t, json.Unmarshal([]byte(stdout), &made))
	require.False(t, made.New)
	require.Equal(t, []string{"01-open.md", "02-buy.md"}, made.Removed)

	runs := "shop/scenarios/buy/runs/"
	for id, status := range map[string]string{"r1": "pass", "r2": "fail", "r3": "pass"} {
		require.NoError(t, os.MkdirAll(runs+id, 0o755))
		s.File(runs+id+"/result.json", `{"run_id":"`+id+`","run_number":`+id[1:]+`,"scenario":"buy","status":"`+status+`","started_at":"2026-11-21T10:00:0`+id[1:]+`Z","duration_ms":1000,
			"steps":[{"id":"01","title":"Only","status":"`+status+`","error":null}]}`)
	}
	require.NoError(t, os.MkdirAll(runs+"r4", 0o755))
	s.File(runs+"r4/result.json", "torn")
	code, stdout, stderr = s.Run("scenario", "status", "shop", "buy", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stderr, "left out: ")
	var status scenarioStatus
	require.NoError(t, json.Unmarshal([]byte(stdout), &status))
	require.Equal(t, []string{"smoke", "daily"}, status.Tags, "kept")
	require.Equal(t, "Shorter", status.Title)
	require.Equal(t, 67, status.PassRate)
	require.Equal(t, []scenario.StepRef{{ID: "01", Title: "Only", File: "01-only.md"}}, status.Steps)
	require.Equal(t, "r3", status.RecentRuns[0].RunID, "newest first")
	require.Equal(t, "01", *status.RecentRuns[1].FailedStep)

	_, stdout, _ = s.Run("scenario", "status", "shop", "buy")
	require.Regexp(t, `(?m)^#2 +r2 +fail +2026-11-21T10:00:02Z +0/1 +1\.0 s +01$`, stdout)
	_, stdout, _ = s.Run("scenario", "status", "shop")
	require.Regexp(t, `(?m)^buy +pass +2026-11-21T10:00:03Z +3 +67 % +1 +Shorter +smoke daily$`, stdout)
	require.Contains(t, stdout, "1 scenario: 1 passing, 0 failing, 0 never run")
	_, stdout, _ = s.Run("scenario", "list", "shop", "--json")
	var list []summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	require.Len(t, list, 1)
	s.StartedNothing()
}

// A run that Temporal cut off counts as failed although its result still says running.
func TestStatus_cutOff(t *testing.T) {
	s := newShell(t)
	code, _, stderr := s.Run("scenario", "create", "shop", "buy", "--step", "Only: One step.")
	require.Equal(t, cli.ExitOK, code, stderr)
	folder := "shop/scenarios/buy/runs/r1"
	require.NoError(t, os.MkdirAll(folder, 0o755))
	s.File(folder+"/result.json", `{"run_id":"r1","run_number":1,"scenario":"buy","status":"running","started_at":"2026-11-21T10:00:01Z",
		"steps":[{"id":"01","title":"Only","status":"running","error":null}]}`)
	p, err := OpenProject("shop")
	require.NoError(t, err)
	defer p.Close()

	now := map[string]*run{"buy/r1": {}}
	status, err := statusOf(&cli.CLI{}, p, "buy", now)
	require.NoError(t, err)
	require.Equal(t, 1, status.Running)
	require.Nil(t, status.LastResult)

	now["buy/r1"] = &run{end: &artifact.Error{Type: "Terminated", Message: "terminated by kim@desk"}}
	status, err = statusOf(&cli.CLI{}, p, "buy", now)
	require.NoError(t, err)
	require.Zero(t, status.Running)
	require.Equal(t, 1, status.TotalRuns)
	require.Equal(t, scenario.Fail, *status.LastResult)
	require.Equal(t, "terminated by kim@desk", *status.RecentRuns[0].Error)
}

// Ignored settings and an uninformative prd.md are reported before any model call.
func TestRun_warnings(t *testing.T) {
	t.Parallel()
	const agent = "agents: [{id: a, backend: {type: offline}}]\n"
	for name, tt := range map[string]struct {
		team, prd string
		exposed   bool // there is no store
		says      []string
	}{
		"nothing": {agent, "## Base URL\nhttp://127.0.0.1:3000\n", false, nil},
		"voting and time": {
			agent + "orchestrator: {voting_sensitivity: strict, max_model_calls_per_step: 50, coordination: {persona_generator: {enabled: false}, task_decomposer: {enabled: false}}}\n" +
				"timeout_settings: {initial_round_timeout_seconds: 60}\n",
			"## Application Type\nweb\n", false,
			[]string{
				"team.yaml: orchestrator.coordination.task_decomposer.enabled has no effect on scenarios",
				"team.yaml: orchestrator.voting_sensitivity has no effect on scenarios",
				"team.yaml: timeout_settings.initial_round_timeout_seconds has no effect on scenarios; --step-timeout bounds each step",
			},
		},
		"no prd.md":          {agent, "", false, []string{"prd.md is missing or empty: agents know neither the application nor its address"}},
		"a template":         {agent, "## Base URL\n" + Unfilled + "\n", false, []string{"prd.md still has the address http://HOST:PORT of the template"}},
		"no section":         {agent, "A shop.\n", false, []string{"it has none of the sections Application Type"}},
		"accounts of others": {agent, "## Base URL\nhttp://example.org\n\n## Authentication\n- user: ada\n- password: hunter2\n", false, []string{`prd.md, line 4: no step reads the section "Authentication": call it Credentials`}},
		"a cluster":          {agent, "## Credentials\n- site: http://ada:hunter2@example.org\n", true, []string{"prd.md is in the input of the workflow, with its credentials"}},
		"nothing to hide":    {agent, "## Base URL\nhttp://example.org\n", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tester, err := config.ParseSingle("team.yaml", []byte(tt.team))
			require.NoError(t, err)
			from, err := OpenProject(t.TempDir())
			require.NoError(t, err)
			defer from.Close()
			var stderr bytes.Buffer
			c := &cli.CLI{Stderr: &stderr}
			o := &order{project: from, tester: tester, source: "team.yaml", runs: []*run{{input: scenarioflow.Input{PRD: tt.prd}}}}
			warnIgnored(c, o)
			warnPRD(c, o)
			if tt.exposed {
				warnExposed(c, o)
			}
			require.Len(t, strings.Split(stderr.String(), "\n"), len(tt.says)+1, stderr.String())
			for _, says := range tt.says {
				require.Contains(t, stderr.String(), says)
			}
			require.NotContains(t, stderr.String(), "hunter2")
		})
	}
}

// prd.md goes to the store, if there is one, instead of the workflow's input; a run that
// does not start leaves nothing behind.
func TestRun_storesPRD(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	from, err := OpenProject(t.TempDir())
	require.NoError(t, err)
	defer from.Close()
	r := &run{slug: "buy", id: "r1", input: scenarioflow.Input{PRD: "Password: hunter2"}}
	p := &cli.Connection{Store: store}
	_, err = from.Begin("buy", "r1", time.Now())
	require.NoError(t, err)
	require.NoError(t, r.storePRD(t.Context(), p))
	input, err := json.Marshal(r.input)
	require.NoError(t, err)
	require.NotContains(t, string(input), "hunter2")
	require.Equal(t, acts.PRDHash("Password: hunter2"), r.input.PRDHash)
	there, err := store.Get(t.Context(), "scenarios/buy/runs/r1/definition/prd.md")
	require.NoError(t, err)
	require.Equal(t, "Password: hunter2", string(there))

	require.NoError(t, r.discardFiles(t.Context(), p, from))
	_, err = store.Get(t.Context(), "scenarios/buy/runs/r1/definition/prd.md")
	require.ErrorIs(t, err, artifact.ErrNotFound)
	require.NoDirExists(t, from.Path("buy", "runs", "r1"))
}

// validate finds mistakes in every file of a project and starts nothing.
func TestValidate(t *testing.T) {
	s := newShell(t)
	require.Equal(t, cli.ExitOK, first(s.Run("scenario", "create", "shop", "buy", "--step", "Open: Go to ${BASE_URL}/${PAGE}.")))
	s.File("tester.yaml", "agents: [{id: tester, backend: {model: m, base_url: \"http://127.0.0.1:1/v1\"}, mcp_servers: [{name: web, command: no-such-program}]}]\n")
	code, stdout, stderr := s.Run("scenario", "validate", "shop", "--config", "tester.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "01-open.md, line 5")
	require.Contains(t, stderr, "${PAGE} has no value; give --var PAGE=VALUE")

	code, stdout, stderr = s.Run("scenario", "validate", "shop", "--config", "tester.yaml", "--var", "PAGE=lamps", "--var", "COLOR=red")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "buy: valid, 1 step\n", stdout)
	require.Contains(t, stderr, `there is no program "no-such-program" in PATH`)
	require.Contains(t, stderr, "--var COLOR: no file of the scenarios has ${COLOR}")

	s.File("shop/scenarios/buy/meta.yaml", "title: Buy\nstps:\n- {id: '01', title: Open, file: 01-open.md}\nowner: ada\n")
	code, stdout, _ = s.Run("scenario", "validate", "shop", "buy", "--config", "two.yaml", "--json")
	require.Equal(t, cli.ExitUsage, code)
	var checked validated
	require.NoError(t, json.Unmarshal([]byte(stdout), &checked))
	require.False(t, checked.Valid)
	require.Contains(t, *checked.Scenarios[0].Problem, `line 2, column 1: "stps" is not a key of meta.yaml; did you mean steps?`)
	require.Contains(t, *checked.Tester, "two.yaml")
	s.StartedNothing()
}

func first(code int, _, _ string) int { return code }
