package start

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a schedule cannot start is refused with the remedy, before any stack is.
func TestSchedule_refused(t *testing.T) {
	s := newShell(t)
	s.File("p.yaml", "start: a\nagents: [{id: agent_a, backend: {type: offline}}]\nsteps: [{name: a, agent: agent_a}]\n")
	cron := []string{"schedule", "create", "nightly", "--cron", "0 2 * * *"}
	for want, line := range map[string][]string{
		"define a source in the worker's configuration (sources), and give --base source:NAME": append(cron, "--", "run", "--offline", "--base", ".", "Q"),
		"--context: every run of a schedule would have the files of now":                       append(cron, "--", "pipeline", "run", "--offline", "--context", ".", "p.yaml", "Q"),
		"--image: every run":                            append(cron, "--", "run", "--offline", "--image", "a.png", "Q"),
		"--checks: every run":                           append(cron, "--", "run", "--offline", "--checks", ".", "Q"),
		"--session-id: every run":                       append(cron, "--", "run", "--offline", "--session-id", "s1", "Q"),
		"unknown flag: --apply":                         append(cron, "--", "run", "--apply", "Q"),
		`schedule "serve": a schedule starts run or`:    append(cron, "--", "serve"),
		"create takes NAME and, after --, the command":  append(cron, "run", "Q"),
		"--cron is missing":                             {"schedule", "create", "nightly", "--", "run", "--offline", "Q"},
		"--overlap \"both\": it takes skip":             append(cron, "--overlap", "both", "--", "run", "--offline", "Q"),
		"--catchup takes at least 10s":                  append(cron, "--catchup", "1s", "--", "run", "--offline", "Q"),
		"name a schedule with up to 100 letters":        {"schedule", "create", "a/b\x1b[31m", "--cron", "0 2 * * *", "--", "run", "--offline", "Q"},
		"not \"" + strings.Repeat("x", 40):              {"schedule", "create", strings.Repeat("x", 101), "--cron", "0 2 * * *", "--", "run", "--offline", "Q"},
		"the query is empty":                            append(cron, "--", "run", "--offline", " "),
		"is not the name of a source":                   append(cron, "--", "run", "--offline", "--base", "source:a b", "Q"),
		"read the pipeline: stat none.yaml: no such":    append(cron, "--", "pipeline", "run", "--offline", "none.yaml", "Q"),
		"--base source:site is read by the worker of a": {"step", "--session-dir", "d", "--offline", "--base", "source:site", "Q"},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, 1, code, line)
		require.Empty(t, stdout, line)
		require.Contains(t, stderr, want)
		require.NotContains(t, stderr, "\x1b")
	}
	s.StartedNothing()
}
