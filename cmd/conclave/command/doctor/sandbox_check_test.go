package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/cli"
)

func TestSandboxCheck_usage(t *testing.T) {
	s := newShell(t)
	s.File("worker.yaml", "sandbox: {level: ful}\n")
	for _, tt := range []struct {
		line []string
		says string
	}{
		{[]string{"sandbox", "chekc"}, "did you mean `conclave sandbox check`?"},
		{[]string{"sandbox", "check", "x"}, "takes no arguments, got 1 argument"},
		{[]string{"sandbox", "check", "--level", "strong"}, `--level is "strong"; it takes full, landlock or off`},
		{[]string{"sandbox", "check", "--levl", "off"}, "did you mean --level?"},
		{[]string{"sandbox", "check", "--only", ""}, "--only names no attack"},
		{[]string{"sandbox", "check", "--worker-config", "nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"sandbox", "check", "--worker-config", "worker.yaml"}, "worker.yaml:1"},
	} {
		code, stdout, stderr := s.Run(tt.line...)
		require.Equal(t, cli.ExitUsage, code, "%v", tt.line)
		require.Empty(t, stdout, "%v", tt.line)
		require.Contains(t, stderr, tt.says, "%v", tt.line)
	}
	s.StartedNothing()
}

func TestCheck_openAttacks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the attacks need Linux")
	}
	s := newShell(t)
	s.File("worker.yaml", "sandbox: {level: \"off\"}\n")
	code, stdout, stderr := s.Run("sandbox", "check", "--worker-config", "worker.yaml", "--only", "env_secret,read_hostfile", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	var got SandboxReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, sandbox.Off, got.Level)
	require.Len(t, got.Attacks, 2)
	require.Equal(t, "stopped", got.Attacks[0].Outcome, got.Attacks[0].Detail)
	require.Equal(t, "open", got.Attacks[1].Outcome, got.Attacks[1].Detail)
	require.NotEmpty(t, got.Attacks[1].Known)
	require.Equal(t, []int{1, 1, 1, 0, 0}, []int{got.Stopped, got.Open, got.Known, got.NotTried, got.NoVerdict})

	code, stdout, stderr = s.Run("sandbox", "check", "--level", "off", "--only", "env_secret,read_hostfile")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "This host offers the sandbox level ")
	require.Regexp(t, `(?m)^stopped +env_secret +read the worker's API key`, stdout)
	require.Regexp(t, `(?m)^open \(known\) +read_hostfile +.*: the secret is in the output$`, stdout)
	require.Contains(t, stdout, "\n2 attacks at level off: 1 stopped, 1 open (1 of them known)\n")

	code, stdout, stderr = s.Run("sandbox", "check", "--level", "off", "--only", "env_secret ")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "\n1 attack at level off: 1 stopped\n")

	code, _, stderr = s.Run("sandbox", "check", "--level", "off", "--only", "sneeze")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `no attack "sneeze"`)
}

func TestCheck_toolchains(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the attacks need Linux")
	}
	s := newShell(t)
	require.NoError(t, os.MkdirAll(filepath.Join(s.Home, "go", "bin"), 0o755))
	check := func(toolchain string) (int, string, string) {
		s.File("worker.yaml", "sandbox: {level: \"off\", toolchains: ["+toolchain+"]}\n")
		return s.Run("sandbox", "check", "--worker-config", "worker.yaml", "--only", "env_secret")
	}
	code, stdout, stderr := check(filepath.Join(s.Home, "go"))
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "\n1 attack at level off: 1 stopped\n")
	for toolchain, says := range map[string]string{
		s.Home:                              "so commands could read more than programs",
		"/etc":                              "is or holds /etc",
		filepath.Join(s.Home, "no", "such"): "no such file or directory",
	} {
		code, stdout, stderr := check(toolchain)
		require.Equal(t, cli.ExitUsage, code, toolchain)
		require.NotContains(t, stdout, "env_secret", toolchain)
		require.Contains(t, stderr, "toolchain", toolchain)
		require.Contains(t, stderr, says, toolchain)
	}
}

func TestCheck_hostLacksLevel(t *testing.T) {
	host := sandbox.Probe(t.Context())
	if host.Level == sandbox.Full {
		t.Skip("this host gives everything")
	}
	s := newShell(t)
	code, stdout, stderr := s.Run("sandbox", "check")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stdout, "missing for full: "+host.Missing[0])
	require.Contains(t, stderr, `sandbox level "full"`)
	code, stdout, _ = s.Run("sandbox", "check", "--json")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stdout, `"attacks": []`)
}

func TestReport_counts(t *testing.T) {
	t.Parallel()
	r := SandboxReport{Attacks: []attack.Result{
		{Name: "a", Outcome: "stopped"},
		{Name: "b", Outcome: "open", Known: "no rule"},
		{Name: "c", Outcome: "open"},
		{Name: "d", Outcome: "not tried"},
		{Name: "e", Outcome: "no verdict", Known: "no rule"},
	}}
	r.countOutcomes()
	require.Equal(t, []int{1, 2, 1, 1, 1}, []int{r.Stopped, r.Open, r.Known, r.NotTried, r.NoVerdict})
	require.Equal(t, []string{"c", "e"}, r.Failed())
}
