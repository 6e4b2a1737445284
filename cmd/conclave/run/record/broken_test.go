package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// outage is a store that cannot be asked about some keys.
type outage struct {
	artifact.Store
	operation string // get, open, exists, list
	key       string // a part of it
}

var errOutage = errors.New("the storage does not answer")

func (o outage) hits(operation, key string) bool {
	return o.operation == operation && strings.Contains(key, o.key)
}

func (o outage) Get(ctx context.Context, key string) ([]byte, error) {
	if o.hits("get", key) {
		return nil, errOutage
	}
	return o.Store.Get(ctx, key)
}

func (o outage) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if o.hits("open", key) {
		return nil, errOutage
	}
	return o.Store.Open(ctx, key)
}

func (o outage) Exists(ctx context.Context, key string) (bool, error) {
	if o.hits("exists", key) {
		return false, errOutage
	}
	return o.Store.Exists(ctx, key)
}

func (o outage) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if o.hits("list", prefix) {
		return func(yield func(string, error) bool) { yield("", errOutage) }
	}
	return o.Store.List(ctx, prefix)
}

func (o outage) Objects(ctx context.Context, prefix string) iter.Seq2[artifact.Object, error] {
	if o.hits("list", prefix) {
		return func(yield func(artifact.Object, error) bool) { yield(artifact.Object{}, errOutage) }
	}
	return o.Store.Objects(ctx, prefix)
}

// An outage of the storage is an error that names the document; it never yields a record with gaps.
// Reading succeeds again after the outage.
func TestRead_outages(t *testing.T) {
	t.Parallel()
	p := stage.Evaluated(t)
	p.Say(1, "", "Thank you.")
	judged := p.Layout.Step("agent_a", 1, "")
	for _, tc := range []struct{ operation, key, says string }{
		{"get", "session.json", "session.json"},
		{"get", "config.json", "config.json"},
		{"get", "history.json", "history.json"},
		{"get", "eval_criteria.json", "eval_criteria.json"},
		{"get", "status.json", "status.json"},
		{"get", "events.jsonl", "events.jsonl"},
		{"get", "messages/", "messages/"},
		{"list", "agents/", "list the steps of"},
		{"exists", "agents/agent_b/", "look for step"},
		{"get", judged + "step.json", "agents/agent_a/001/step.json"},
		{"get", judged + "action.json", "agents/agent_a/001/action.json"},
		{"get", judged + "answer.json", "agents/agent_a/001/answer.json"},
		{"get", judged + "workspace.json", "agents/agent_a/001/workspace.json"},
		{"list", judged + "workspace/", "list the files of agents/agent_a/001/"},
		{"get", judged + "checks.json", "agents/agent_a/001/checks.json"},
		{"get", judged + "evaluator/verdict.json", "verdict.json"},
		{"get", judged + "evaluator/critique_packet.md", "critique_packet.md"},
		{"get", judged + "evaluator/next_tasks.json", "next_tasks.json"},
		{"get", judged + "evaluator/action.json", "evaluator/action.json"},
		{"get", judged + "transcript.jsonl", "transcript.jsonl"},
	} {
		store := &outage{Store: p.Store, operation: tc.operation, key: tc.key}
		r := NewReader(store, p.Layout, nil)
		_, err := r.Read(t.Context())
		require.ErrorIs(t, err, errOutage, tc.key)
		require.ErrorContains(t, err, tc.says)

		store.operation = ""
		again, err := r.Read(t.Context())
		require.NoError(t, err)
		fresh, err := NewReader(p.Store, p.Layout, nil).Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, fresh, again, tc.key)
	}
}

// A damaged document is named and left out, and the rest of the session is read.
func TestRead_damagedDocuments(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*Session) bool{
		"session.json":                        func(s *Session) bool { return s.Created.IsZero() },
		"status.json":                         func(s *Session) bool { return s.State.SessionID == "" },
		"config.json":                         func(s *Session) bool { return len(s.Team.Agents) == 0 },
		"events.jsonl":                        func(s *Session) bool { return len(s.Events) == 0 },
		"agents/agent_a/001/step.json":        func(s *Session) bool { return s.Step("agent_a", 1).Shown == nil },
		"agents/agent_a/001/action.json":      func(s *Session) bool { return s.Step("agent_a", 1).Usage.ModelCalls == 0 },
		"agents/agent_a/001/answer.json":      func(s *Session) bool { return s.Step("agent_a", 1).Answer == nil },
		"agents/agent_c/001/workspace.json":   func(s *Session) bool { return len(s.Step("agent_c", 1).Answer.Files) == 0 },
		"agents/agent_b/002/vote.json":        func(s *Session) bool { return s.Step("agent_b", 2).Vote == nil },
		"messages/0001.json":                  func(s *Session) bool { return len(s.Messages) == 0 },
		"agents/agent_a/001/checks.json":      func(s *Session) bool { return s.Step("agent_a", 1).Checks == nil },
		"agents/agent_a/001/transcript.jsonl": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := stage.ThreeRounds(t)
			if strings.HasPrefix(name, "messages/") {
				name = p.Layout.Message(1)
			}
			require.NoError(t, os.WriteFile(filepath.Join(p.Dir, name), []byte("{\"cut"), 0o600))
			s, err := NewReader(p.Store, p.Layout, nil).Read(t.Context())
			require.NoError(t, err)
			if lost == nil { // its lines are extras
				require.Empty(t, s.Problems)
				return
			}
			require.Len(t, s.Problems, 1)
			require.True(t, strings.HasPrefix(s.Problems[0], name+" is left out: "), s.Problems[0])
			require.True(t, lost(s))
			require.NotEmpty(t, s.Steps)
			require.Equal(t, "Which database suits a small shop?", s.Query)
		})
	}
}

// Objects that do not belong to a step of an agent are ignored.
func TestRead_otherObjects(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", teamOfTwo)
	for _, key := range []string{
		"agents/readme.md", "agents/agent_a/latest", "agents/agent_a/1/step.json", "agents/agent_a/0001/step.json",
		"agents/agent_a/-01/step.json", "agents/agent_a/x/step.json", "agents/agent_a/000/notes",
	} {
		require.NoError(t, p.Store.Create(t.Context(), key, []byte("{}")))
	}
	s, err := NewReader(p.Store, p.Layout, nil).Read(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Steps, 2)
	require.NotNil(t, s.Step("agent_a", 1))
	require.NotNil(t, s.Step("agent_b", 1))
}

// Criteria are an array, or an object with one.
func TestParseCriteria(t *testing.T) {
	t.Parallel()
	want := []Criterion{{Text: "It is right.", Category: "must"}}
	require.Equal(t, want, parseCriteria([]byte(`[{"text":"It is right.","category":"must"}]`)))
	require.Equal(t, want, parseCriteria([]byte(`{"criteria":[{"text":"It is right.","category":"must"}]}`)))
	for _, other := range []string{"", "null", "7", `{"aspiration":"x"}`, "{"} {
		require.Empty(t, parseCriteria([]byte(other)), other)
	}
}

// A list fails when the storage does not answer.
func TestList_outages(t *testing.T) {
	t.Parallel()
	p := stage.NewPipelineRun(t, "p1")
	p.End("Done.")
	for _, tc := range []struct{ operation, key, says string }{
		{"list", "sessions/", "list "},
		{"list", "pipelines/", "list "},
		{"list", "scenarios/", "list "},
		{"get", "pipelines/p1/pipeline.json", "read "},
		{"get", "pipelines/p1/status.json", "read "},
	} {
		_, err := List(t.Context(), outage{Store: p.Store, operation: tc.operation, key: tc.key})
		require.ErrorIs(t, err, errOutage)
		require.ErrorContains(t, err, tc.says)
	}
	_, err := ReadPipeline(t.Context(), outage{Store: p.Store, operation: "get", key: "config.json"}, p.Layout)
	require.ErrorContains(t, err, "read config.json: "+errOutage.Error())
}

// A directory without status.json is judged by the rules of step mode, and warnings are kept.
func TestRead_deriveWarns(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}})
	p.Answer(1, "agent_a", "Because.", nil)
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "status.json")))
	s := reading(t, p.Dir)
	require.Equal(t, coordination.PhaseCoordinating, s.State.Phase)
	require.Len(t, s.State.Agents, 1)
	require.Equal(t, 1, s.State.Agents[0].Answers)
	require.NotZero(t, s.State.Cost.InputTokens)
	require.Equal(t, s.Agents[0].Steps[0].Usage, s.State.Agents[0].Cost)

	bucket, err := NewReader(p.Store, p.Layout, nil).Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, bucket.State.Agents, "a bucket has no directory to judge")
	require.True(t, bucket.Running())
}

// A directory of step mode has its question in the claims of its steps. The first one counts.
func TestRead_queryOfSteps(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}})
	p.Answer(1, "agent_a", "Because.", nil)
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "status.json")))
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "session.json")))
	require.Empty(t, reading(t, p.Dir).Query)
	for number, query := range []string{"Why so?", "Why not?"} {
		claim := artifact.Claim{StartedAt: stage.Began.Add(time.Duration(number) * time.Hour), Query: query}
		dir := filepath.Join(p.Dir, "agents", "agent_b", fmt.Sprintf("%03d", number+1))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		data, err := json.Marshal(claim)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "step.json"), data, 0o600))
	}
	require.Equal(t, "Why so?", reading(t, p.Dir).Query)
}
