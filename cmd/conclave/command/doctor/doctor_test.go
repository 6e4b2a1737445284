package doctor

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	boxes "conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
)

const offlineTeam = "agents:\n  - {id: agent_a, backend: {type: offline}}\n  - {id: agent_b, backend: {type: offline}}\n"

func diagnose(t *testing.T, s stage.Shell, args ...string) (code int, checks map[string]check) {
	t.Helper()
	code, stdout, stderr := s.Run(append([]string{"doctor", "--json"}, args...)...)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), "%s%s", stdout, stderr)
	checks = map[string]check{}
	for _, k := range r.Checks {
		require.NotEmpty(t, k.Detail, k.Name)
		require.True(t, k.OK || k.Remedy != "", "the fault of %s has a remedy", k.Name)
		checks[k.Name] = k
	}
	require.Len(t, checks, len(r.Checks), "every check once")
	return code, checks
}

func TestDoctor_allIsWell(t *testing.T) {
	s := newShell(t)
	store := &bucket{conditional: true}
	store.serve(t)
	s.File("team.yaml", offlineTeam)
	line := []string{"--address", frontend{version: "1.29.3", workers: 2}.serve(t), "--bucket", "sessions", "--config", "team.yaml", "--skip", "sandbox"}
	code, checks := diagnose(t, s, line...)
	require.Equal(t, cli.ExitOK, code)
	require.Len(t, checks, len(table)-1)
	for _, k := range checks {
		require.True(t, k.OK, k.Name)
		require.Empty(t, k.Remedy, k.Name)
	}
	require.Equal(t, "conclave v1.2.3; Temporal SDK v1.50.0, server 1.29.3", checks["versions"].Detail)
	require.Contains(t, checks["temporal"].Detail, "2 workers on the task queue conclave")
	require.Equal(t, "sessions can use 1 model", checks["models"].Detail)
	require.Empty(t, store.objects, "the probe's object is deleted")

	code, stdout, _ := s.Run(append([]string{"doctor"}, line...)...)
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `(?m)^✓ clock     agrees with that of the bucket$`, stdout)
	require.True(t, strings.HasSuffix(stdout, "\nAll is well.\n"), stdout)
}

func TestDoctor_faultsHaveRemedies(t *testing.T) {
	s := newShell(t)
	(&bucket{behind: 3 * time.Minute}).serve(t)
	old := frontend{version: "1.20.1"}.serve(t)
	code, checks := diagnose(t, s, "--address", old, "--bucket", "sessions", "--skip", "sandbox")
	require.Equal(t, cli.ExitUsage, code)
	for name, want := range map[string][2]string{
		"versions": {"server 1.20.1", "Temporal 1.28 or newer"},
		"bucket":   {"does not honour conditional writes", "use a store that supports If-None-Match"},
		"clock":    {"ahead of that of the bucket", "chrony"},
		"models":   {"OPENAI_API_KEY, which holds the key, is not set", "conclave models check"},
	} {
		require.False(t, checks[name].OK, name)
		require.Contains(t, checks[name].Detail, want[0], name)
		require.Contains(t, checks[name].Remedy, want[1], name)
	}
	require.True(t, checks["temporal"].OK, "a cluster may get its workers later")
	require.Contains(t, checks["temporal"].Remedy, "conclave worker")

	code, checks = diagnose(t, s, "--address", old, "--namespace", "other", "--skip", "models,sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.False(t, checks["temporal"].OK)
	require.Contains(t, checks["temporal"].Remedy, "check --namespace")
	require.Equal(t, check{Name: "bucket", Detail: "no bucket is named", Remedy: checks["clock"].Remedy}, checks["bucket"])

	code, stdout, _ := s.Run("doctor", "--address", old, "--bucket", "sessions", "--skip", "models,sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stdout, "\n            → synchronize the clock of this machine")
	require.Contains(t, stdout, "\n3 things to mend.\n")
}

func TestDoctor_unreachableCluster(t *testing.T) {
	s := newShell(t)
	(&bucket{conditional: true}).serve(t)
	code, checks := diagnose(t, s, "--address", "127.0.0.1:1", "--bucket", "sessions", "--skip", "models,sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.False(t, checks["temporal"].OK)
	require.Contains(t, checks["temporal"].Detail, "connect to Temporal at 127.0.0.1:1")
	require.Contains(t, checks["temporal"].Remedy, "check --address")
	require.True(t, checks["bucket"].OK, "the bucket is checked without Temporal")
	require.True(t, checks["clock"].OK)
}

// A bucket that cannot be opened is no fault of Temporal.
func TestDoctor_unusableBucket(t *testing.T) {
	s := newShell(t)
	server := frontend{version: "1.29.3"}.serve(t)
	code, checks := diagnose(t, s, "--address", server, "--bucket", "X", "--skip", "models,sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.True(t, checks["temporal"].OK, checks["temporal"].Detail)
	require.Equal(t, `open the bucket X: bucket name "X": use 3 to 63 lower-case letters, digits, '.' and '-'`, checks["bucket"].Detail)
	require.False(t, checks["clock"].OK)

	(&bucket{missing: true}).serve(t)
	_, checks = diagnose(t, s, "--address", server, "--bucket", "sessions", "--skip", "models,sandbox")
	require.Equal(t, "create it, or name another one", checks["bucket"].Remedy)

	code, stdout, stderr := s.Run("doctor", "--address", server, "--prefix", "team-a")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "--prefix needs --bucket")
}

func TestDoctor_theStackDoesNotStart(t *testing.T) {
	s := newShell(t)
	s.File("file", "")
	s.File("team.yaml", offlineTeam)
	code, checks := diagnose(t, s, "--data-dir", "file", "--config", "team.yaml", "--skip", "sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.False(t, checks["temporal"].OK)
	require.Contains(t, checks["temporal"].Remedy, "--data-dir")
	require.False(t, checks["bucket"].OK)
	require.True(t, checks["models"].OK, "a fault does not keep the others from being checked")
}

func TestDoctor_usage(t *testing.T) {
	s := newShell(t)
	for line, says := range map[string]string{
		"doctor x":                   "takes no arguments, got 1 argument",
		"doctor --skip modles":       `there is no check "modles"; there are versions, temporal`,
		"doctor --timeout 0s":        "positive duration",
		"doctor --address localhost": "HOST:PORT",
	} {
		code, stdout, stderr := s.Run(strings.Fields(line)...)
		require.Equal(t, cli.ExitUsage, code, line)
		require.Empty(t, stdout, line)
		require.Contains(t, stderr, says, line)
	}
	s.StartedNothing()
}

func TestSandbox_judged(t *testing.T) {
	t.Parallel()
	full := attack.Options{Level: boxes.Full}
	r := SandboxReport{Attacks: []attack.Result{{Name: "tcp", Outcome: "open"}, {Name: "udp", Outcome: "stopped"}}}
	k := judgeAttacks(full, r)
	require.False(t, k.OK)
	require.Equal(t, "level full does not stop tcp", k.Detail)
	r.Attacks = r.Attacks[1:]
	r.Totals = attack.Totals{Stopped: 1, Known: 2, NotTried: 3}
	k = judgeAttacks(full, r)
	require.True(t, k.OK)
	require.Equal(t, "level full: 1 of 1 attack stopped, 2 are known to be open at this level, 3 cannot be tried here", k.Detail)
}

// A host without the level is a fault only if an agent has a shell.
func TestSandbox_lacking(t *testing.T) {
	s := newShell(t)
	s.File("shell.yaml", "agent: {id: agent_a, backend: {type: offline}, tools: {shell: true}}\n")
	s.File("plain.yaml", offlineTeam)
	e := &boxes.LevelError{Required: boxes.Full, Given: boxes.Off, Missing: []string{"the kernel has no Landlock"}}
	for _, tt := range []struct {
		config, settings string
		ok               bool
	}{{"plain.yaml", "", true}, {"shell.yaml", "", false}, {"plain.yaml", "worker.yaml", false}} {
		k := (&patient{cli: &cli.CLI{Config: tt.config, WorkerConfig: tt.settings}}).levelLacking(e)
		require.Equal(t, tt.ok, k.OK, tt)
		require.Contains(t, k.Detail, "level off, and full is required")
		require.NotEmpty(t, k.Remedy)
	}
}

func TestDoctor_attacksTheSandbox(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the attacks need Linux")
	}
	if testing.Short() {
		t.Skip("half a minute")
	}
	s := newShell(t)
	s.File("worker.yaml", "sandbox: {level: \"off\"}\n")
	code, checks := diagnose(t, s, "--address", frontend{version: "1.29.3"}.serve(t), "--worker-config", "worker.yaml",
		"--skip", "versions,temporal,bucket,clock,models")
	require.Len(t, checks, 1)
	if boxes.Probe(t.Context()).Level == boxes.Off {
		require.Equal(t, cli.ExitOK, code)
		return
	}
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, checks["sandbox"].Detail, "can do whatever the worker can")
}

// A command quoted from a foreign file is not mistaken for the remedy.
func TestDoctor_aFileWithoutTrust(t *testing.T) {
	s := newShell(t)
	s.File("conclave.yaml", `{agents: [{id: agent_a, backend: {type: offline}, mcp_servers: [{name: x, command: sh, args: [-c, "true; rm -r x"]}]}]}`)
	code, checks := diagnose(t, s, "--address", frontend{version: "1.29.3"}.serve(t), "--skip", "versions,temporal,bucket,clock,sandbox")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, checks["models"].Detail, "run, outside the sandbox, `sh -c 'true; rm -r x'` as the MCP server x (agent_a)")
	require.Equal(t, "`conclave config trust conclave.yaml` trusts it until it changes", checks["models"].Remedy)
}

func TestFailed_dividesAnErrorAndItsRemedy(t *testing.T) {
	t.Parallel()
	require.Equal(t, check{Detail: "open it: no; such file", Remedy: "make it"}, failedCheck(errors.New("open it: no; such file; make it"), "mend it"))
	require.Equal(t, check{Detail: "it broke", Remedy: "mend it"}, failedCheck(errors.New("it broke"), "mend it"))
}

func TestTooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"1.27.9": true, "0.99.0": true, "1.28.0": false, "1.32.1": false, "2.0.0": false, "cloud": false, "": false} {
		require.Equal(t, want, tooOld(version), version)
	}
}
