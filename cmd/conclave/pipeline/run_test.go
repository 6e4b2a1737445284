package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/engine/config"
	"conclave/workflows/drive"
)

// At a terminal a failed step parks the run, unless the file says otherwise.
func TestFile_parksForAPerson(t *testing.T) {
	t.Parallel()
	const steps = "steps: [{name: main, kind: session}]\n"
	for name, test := range map[string]struct {
		content string
		person  bool
		want    string
	}{
		"a person":           {"start: main\n" + steps, true, "park"},
		"nobody":             {"start: main\n" + steps, false, "stop"},
		"the file says stop": {"start: main\non_step_failure: stop\n" + steps, true, "stop"},
		"as JSON":            {`{"start": "main", "on_step_failure": "stop", "steps": [{"name": "main", "kind": "session"}]}`, true, "stop"},
		"a comment":          {"start: main # on_step_failure: stop\n" + steps, true, "park"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "p.yaml")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			f, err := readFile(path, config.Local)
			require.NoError(t, err)
			f.parkFor(test.person)
			require.Equal(t, test.want, f.OnStepFailure)
		})
	}
}

func TestReopen_refuses(t *testing.T) {
	t.Parallel()
	conn := &hall.Connection{CLI: &hall.CLI{Queue: drive.TaskQueue}}
	ended := runs.Run{Kind: Kind(), ID: "p1", Workflow: "p1", Status: "completed"}
	_, err := reopen(t.Context(), conn, ended, "")
	require.ErrorContains(t, err, "it has ended (completed), and its result stands; nothing was started")
	_, err = reopen(t.Context(), conn, ended, "agent_a")
	require.ErrorContains(t, err, "leave out --agent")
	ended.Status = "error"
	input, err := reopen(t.Context(), conn, ended, "")
	require.NoError(t, err)
	require.NotNil(t, input)
}
