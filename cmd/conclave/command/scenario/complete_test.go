package scenario

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

// A shell completes scenarios, tags, steps and runs by the files of DIR, and starts nothing.
func TestComplete(t *testing.T) {
	s := newShell(t)
	code, _, stderr := s.Run("scenario", "create", "shop", "buy", "--step", "Only: One step.", "--tag", "smoke", "--tag", "daily")
	require.Equal(t, cli.ExitOK, code, stderr)
	runs := "shop/scenarios/buy/runs/"
	for id, status := range map[string]string{"r1": "pass", "r2": "fail"} {
		require.NoError(t, os.MkdirAll(runs+id, 0o755))
		s.File(runs+id+"/result.json", `{"run_id":"`+id+`","run_number":`+id[1:]+`,"scenario":"buy","status":"`+status+`","started_at":"2026-11-21T10:00:0`+id[1:]+`Z"}`)
	}
	for _, tt := range []struct {
		want string
		line []string
	}{
		{":16\n", []string{"status", ""}},
		{"buy\n:4\n", []string{"watch", "shop", ""}},
		{"r2\tfail\nr1\tpass\n:36\n", []string{"watch", "shop", "buy", ""}},
		{":4\n", []string{"run", "shop", "buy", ""}},
		{"daily\nsmoke\n:36\n", []string{"run", "shop", "--tag", ""}},
		{"01\tOnly\n:36\n", []string{"run", "shop", "buy", "--only", ""}},
		{"r2\tfail\nr1\tpass\n:36\n", []string{"run", "shop", "buy", "--retry", ""}},
		{":36\n", []string{"run", "shop", "gone", "--retry", ""}},
		{":4\n", []string{"watch", "nowhere", ""}},
	} {
		code, stdout, _ := s.Run(append([]string{"__complete", "scenario"}, tt.line...)...)
		require.Equal(t, cli.ExitOK, code)
		require.Equal(t, tt.want, stdout, tt.line)
	}
	s.StartedNothing()
}
