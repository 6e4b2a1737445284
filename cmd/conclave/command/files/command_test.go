package files

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/workflows"
)

// answered is a store with a session in which agent_a answered with a file.
func answered(t *testing.T) *cli.Connection {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InBucket("s1")
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "notes.md"), []byte("notes"), 0o600))
	m, hash, err := artifact.OpenWorkingCopy(store, layout, work, "").Seal(t.Context())
	require.NoError(t, err)
	payload, err := json.Marshal(session.Answer{Answer: "Because.", Label: "agent1.1"})
	require.NoError(t, err)
	for key, doc := range map[string]any{
		layout.File("session.json"):                 artifact.Session{Query: "Why?", Owner: artifact.Owner{WorkflowID: "s1", FirstRunID: "run-1"}},
		layout.File("status.json"):                  map[string]string{"status": workflows.Running},
		layout.Step("agent_a", 1, "step.json"):      artifact.Claim{},
		layout.Step("agent_a", 1, "action.json"):    artifact.Commit{Kind: "new_answer", Payload: payload, Manifest: hash},
		layout.Step("agent_a", 1, "answer.json"):    artifact.Answer{AgentID: "agent_a", Answer: "Because.", Label: "agent1.1"},
		layout.Step("agent_a", 1, "workspace.json"): m,
	} {
		require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc))
	}
	return &cli.Connection{Store: store}
}

// pulled pulls the session s1 of a store.
func pulled(t *testing.T, c cli.CLI, p *cli.Connection, dir string, verify bool) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Queue = &out, &errs, workflows.TaskQueue
	p.CLI = &c
	code = stage.Report(&c, pullFrom(t.Context(), p, "s1", dir, verify))
	return code, out.String(), errs.String()
}

func TestPull_verifies(t *testing.T) {
	t.Parallel()
	p, dir := answered(t), t.TempDir()
	code, stdout, stderr := pulled(t, cli.CLI{}, p, dir, true)
	require.Equal(t, cli.ExitOK, code)
	require.True(t, strings.HasSuffix(stdout, "\nverified: 1 manifest, 1 step\n"), stdout)
	require.Equal(t, "its last record says that it is still running; pull again for the rest\n", stderr)

	code, stdout, _ = pulled(t, cli.CLI{JSON: true}, p, dir, true)
	require.Equal(t, cli.ExitOK, code)
	var summary map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &summary))
	require.Equal(t, map[string]any{"manifests": 1.0, "steps": 1.0, "problems": []any{}}, summary["verified"])

	_, stdout, _ = pulled(t, cli.CLI{JSON: true}, p, dir, false)
	require.NotContains(t, stdout, "verified")
}

func TestPull_printsProblems(t *testing.T) {
	t.Parallel()
	p, dir := answered(t), t.TempDir()
	_, _, _ = pulled(t, cli.CLI{}, p, dir, false)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/agent_a/001/workspace/x\x1b[2J"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/agent_a/001/answer.json"), []byte("{"), 0o600))

	code, stdout, stderr := pulled(t, cli.CLI{}, p, dir, true)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, "\nagents/agent_a/001/answer.json is missing or not what action.json commits\n\"agents/agent_a/001/workspace/x\\x1b[2J\" is extra: no manifest lists it")
	require.NotContains(t, stdout, "verified")
	require.Contains(t, stderr, "conclave: verify session s1: 2 problems in "+dir)

	code, stdout, stderr = pulled(t, cli.CLI{Automation: true}, p, dir, true)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Empty(t, stderr)
	var summary pullResult
	require.NoError(t, json.Unmarshal([]byte(stdout), &summary))
	require.Len(t, summary.Verified.Problems, 2)
	require.Equal(t, "agents/agent_a/001/answer.json", summary.Verified.Problems[0].Path)
}

// A pull writes a page that needs no other file; the verification counts it as neither missing nor
// extra.
func TestPull_page(t *testing.T) {
	t.Parallel()
	p, dir := answered(t), t.TempDir()
	code, stdout, _ := pulled(t, cli.CLI{}, p, dir, true)
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "page: "+filepath.Join(dir, "index.html")+"\n")
	html, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(html), "<h1>Why?</h1>")
	require.Contains(t, string(html), `id="answer-agent1.1"`)
	require.NotContains(t, string(html), "http://")
	answer, err := os.ReadFile(filepath.Join(dir, "ANSWER.md"))
	require.NoError(t, err)
	require.Contains(t, string(answer), "There is no decision yet.")
}

// Damage in the store does not prevent the verification of the rest.
func TestPull_damagedSession(t *testing.T) {
	t.Parallel()
	p := answered(t)
	require.NoError(t, p.Store.Delete(t.Context(), bucket{layout: artifact.InBucket("s1")}.blob("notes")))

	code, stdout, stderr := pulled(t, cli.CLI{}, p, t.TempDir(), false)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stdout, ": 7 files, 6 of them copied now")
	require.Contains(t, stderr, "conclave: agents/agent_a/001/workspace/notes.md was left out: ")
	require.Contains(t, stderr, "conclave: pull session s1: 1 file was left out, refused, or damaged or missing in the store; everything else is copied. Restore it there")

	code, stdout, stderr = pulled(t, cli.CLI{Automation: true}, p, t.TempDir(), false)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.Contains(t, stderr, "notes.md was left out")
	var summary pullResult
	require.NoError(t, json.Unmarshal([]byte(stdout), &summary))
	require.Equal(t, "agents/agent_a/001/workspace/notes.md", summary.LeftOut[0].Path)

	code, stdout, stderr = pulled(t, cli.CLI{}, p, t.TempDir(), true)
	require.Equal(t, cli.ExitNoAnswer, code)
	require.NotContains(t, stdout, "notes.md", "it is named once")
	require.NotContains(t, stdout, "verified", "a part of the session is not")
	require.Equal(t, 1, strings.Count(stderr, "notes.md was left out"))
	require.NotContains(t, stderr, "verify session")
}

func TestPull_unknownSession(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	c := cli.CLI{Stderr: &errs, Queue: workflows.TaskQueue}
	p := answered(t)
	p.CLI = &c
	require.Equal(t, cli.ExitUsage, stage.Report(&c, pullFrom(t.Context(), p, "s2", t.TempDir(), true)))
	require.Contains(t, errs.String(), "there is no session s2 in ")
}

func TestPull_interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := answered(t)
	p.CLI = &cli.CLI{Stderr: &bytes.Buffer{}, Queue: workflows.TaskQueue}
	err := pullFrom(ctx, p, "s1", "out", true)
	require.Equal(t, cli.ExitInterrupted, cli.ExitCode(err))
	require.ErrorContains(t, err, "`conclave pull --verify s1 out` resumes")
}
