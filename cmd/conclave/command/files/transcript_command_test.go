package files

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/workflows"
)

// stepsOf is a store with one agent: step 1 voted, step 2 failed, step 3 was killed,
// and another program wrote step 4.
func stepsOf(t *testing.T) *cli.Connection {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InBucket("s1")
	put := func(key string, doc any) {
		require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc))
	}
	lines := func(number int, entries ...loop.Entry) {
		var b bytes.Buffer
		for _, e := range entries {
			data, err := json.Marshal(entryAt{Time: time.Unix(1, 0).UTC(), Entry: e})
			require.NoError(t, err)
			b.Write(append(data, '\n'))
		}
		require.NoError(t, store.Put(t.Context(), layout.Step("agent_a", number, "transcript.jsonl"), bytes.NewReader(b.Bytes())))
	}
	opening := loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: "Why?\x1b[2J"}}}
	voted := loop.Entry{Kind: loop.Results, Action: &loop.Action{Kind: "vote", Payload: json.RawMessage(`{}`)}}
	put(layout.File("session.json"), artifact.Session{Query: "Why?"})
	for number := 1; number <= 3; number++ {
		put(layout.Step("agent_a", number, "step.json"), artifact.Claim{Token: "l" + string(rune('0'+number)), StartedAt: time.Unix(1, 0).UTC()})
	}
	put(layout.Step("agent_a", 1, "action.json"), artifact.Commit{Token: "l1", Kind: "vote", Payload: json.RawMessage(`{}`), Timestamp: time.Unix(9, 0).UTC()})
	lines(1, opening, voted)
	lines(2, opening)
	put(layout.Journal("l3", 1), map[string]any{"lines": []entryAt{
		{time.Unix(1, 0).UTC(), opening},
		{time.Unix(2, 0).UTC(), loop.Entry{Kind: loop.Reply, Messages: []llm.Message{{Role: llm.Assistant, Content: "Because.\u009b"}}}},
	}})
	put(layout.Step("agent_a", 4, "answer.json"), artifact.Answer{AgentID: "agent_a"})
	put(layout.Agent("agent_a", "last_action.json"), artifact.LastAction{
		AgentID: "agent_a", Action: "none", StepNumber: 2, Error: &artifact.Error{Type: "AuthFailed", Message: "no key"},
	})
	put(artifact.InBucket("empty").File("session.json"), artifact.Session{Query: "Why?"})
	return &cli.Connection{Store: store}
}

type entryAt struct {
	Time time.Time `json:"time"`
	loop.Entry
}

// asked runs the command.
func asked(t *testing.T, c cli.CLI, p *cli.Connection, want stepRequest) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Queue = &out, &errs, workflows.TaskQueue
	p.CLI = &c
	code = stage.Report(&c, showStep(t.Context(), p, want))
	return code, out.String(), errs.String()
}

func TestTranscript_text(t *testing.T) {
	t.Parallel()
	p := stepsOf(t)
	for name, tt := range map[string]struct {
		step int
		says []string
	}{
		"committed": {1, []string{"agent_a · step 001", "    Why?\n", "results: accepted as vote", "\nvote · "}},
		"failed":    {2, []string{"ended without an action", "failed: AuthFailed: no key"}},
		"killed":    {3, []string{"not over", "    Because.\n", "this is its transcript so far"}},
	} {
		code, stdout, stderr := asked(t, cli.CLI{}, p, stepRequest{run: "s1", agent: "agent_a", step: tt.step})
		require.Equal(t, cli.ExitOK, code, name)
		require.Empty(t, stderr)
		require.NotContains(t, stdout, "\x1b")
		for _, part := range tt.says {
			require.Contains(t, stdout, part, name)
		}
	}
}

func TestTranscript_JSON(t *testing.T) {
	t.Parallel()
	p := stepsOf(t)
	for name, c := range map[string]cli.CLI{"json": {JSON: true}, "automation": {Automation: true}} {
		code, stdout, stderr := asked(t, c, p, stepRequest{run: "s1", agent: "agent_a", step: 1})
		require.Equal(t, cli.ExitOK, code, name)
		require.Empty(t, stderr)
		kept, err := p.Store.Get(t.Context(), artifact.InBucket("s1").Step("agent_a", 1, "transcript.jsonl"))
		require.NoError(t, err)
		require.Equal(t, string(kept), stdout, "the lines as they are")
	}
	_, stdout, _ := asked(t, cli.CLI{JSON: true}, p, stepRequest{run: "s1", agent: "agent_a", step: 3})
	require.Equal(t, 2, strings.Count(stdout, "\n"))
	require.NotContains(t, stdout, "\u009b", "JSON allows it unescaped, and terminals obey it")
	var last entryAt
	require.NoError(t, json.Unmarshal([]byte(strings.Split(stdout, "\n")[1]), &last))
	require.Equal(t, "Because.\u009b", last.Messages[0].Content)
}

func TestTranscript_missing(t *testing.T) {
	t.Parallel()
	p := stepsOf(t)
	for name, tt := range map[string]struct {
		want stepRequest
		says string
	}{
		"session":            {stepRequest{run: "s2", agent: "agent_a", step: 1}, "there is no session s2 in "},
		"agent":              {stepRequest{run: "s1", agent: "agent_z", step: 1}, `session s1 has no step "agent_z 001"; it has agent_a 001, agent_a 002, `},
		"agent's last":       {stepRequest{run: "s1", agent: "agent_z"}, `session s1 has no step "agent_z"; it has agent_a 001`},
		"not an agent ID":    {stepRequest{run: "s1", agent: "../agent_a", step: 1}, `no step "../agent_a 001"; it has agent_a 001`},
		"without any steps":  {stepRequest{run: "empty", agent: "agent_a", step: 1}, "session empty has no steps yet; `conclave status empty`"},
		"step":               {stepRequest{run: "s1", agent: "agent_a", step: 7}, `session s1 has no step "agent_a 007"; it has agent_a 001, agent_a 002, agent_a 003, agent_a 004`},
		"of another program": {stepRequest{run: "s1", agent: "agent_a"}, "step agent_a 004 of session s1 has no transcript"},
	} {
		code, stdout, stderr := asked(t, cli.CLI{}, p, tt.want)
		require.Equal(t, cli.ExitUsage, code, name)
		require.Empty(t, stdout, name)
		require.Contains(t, stderr, tt.says, name)
	}
}

func TestTranscript_lastStep(t *testing.T) {
	t.Parallel()
	p := stepsOf(t)
	require.NoError(t, p.Store.Delete(t.Context(), artifact.InBucket("s1").Step("agent_a", 4, "answer.json")))
	code, stdout, _ := asked(t, cli.CLI{}, p, stepRequest{run: "s1", agent: "agent_a"})
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "step 003")
}

func TestParseStep(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"3": 3, "003": 3, "1000": 1000, "last": 0} {
		got, err := parseStep(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"0", "-1", "+1", "first", "1.5", "99999999999", "0x1"} {
		_, err := parseStep(text)
		require.ErrorContains(t, err, "as 3, as 003, or as last", text)
	}
}

func TestTranscript_outage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := showStep(ctx, stepsOf(t), stepRequest{run: "s1", agent: "agent_a", step: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "no session")
}
