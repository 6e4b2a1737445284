package quality

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/llm"
)

// scripted is a model that gives one reply and counts its calls.
type scripted struct {
	reply llm.Reply
	err   error
	calls int
	asked llm.Request
}

func (s *scripted) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	s.calls, s.asked = s.calls+1, req
	return s.reply, s.err
}

func says(text string) *scripted {
	return &scripted{reply: llm.Reply{Message: llm.Message{Content: text}, Usage: llm.Usage{ModelCalls: 1, OutputTokens: 9}}}
}

var fallback = config.Criteria{{Text: "It is right.", Category: "standard"}}

const twoCriteria = `{"criteria": [
	{"text": "It runs.", "category": "standard", "primary": true, "verify_by": "Run it.", "anti_patterns": ["stubs"]},
	{"text": "It is short.", "category": "primary", "primary": false, "verify_by": "Count.", "anti_patterns": []}]}`

func TestMake_asksOnce(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"plain":         twoCriteria,
		"fenced":        "Here you are:\n```json\n" + twoCriteria + "\n```\nBye.",
		"after a think": "<think>{not this}</think>" + twoCriteria,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := says(reply)
			made, err := MakeDraft(t.Context(), m, Criteria("Sort a list.", 2, 4, fallback))
			require.NoError(t, err)
			require.Empty(t, made.Why)
			require.Equal(t, config.Criteria{
				{Text: "It runs.", Category: "primary", VerifyBy: "Run it.", AntiPatterns: []string{"stubs"}},
				{Text: "It is short.", Category: "standard", VerifyBy: "Count."},
			}, made.Value, "the first primary one stays, the second becomes standard")
			require.EqualValues(t, 9, made.Usage.OutputTokens)
			require.Equal(t, 1, m.calls)
			require.Contains(t, m.asked.Messages[1].Content, "Sort a list.")
			require.Contains(t, m.asked.Messages[1].Content, "2 to 4 criteria")
			require.Contains(t, string(m.asked.Form.Schema), `"minItems":2,"maxItems":4`)
		})
	}
}

func TestMake_readsATool(t *testing.T) {
	t.Parallel()
	m := &scripted{reply: llm.Reply{Message: llm.Message{Content: "{}", ToolCalls: []llm.ToolCall{
		{Name: "other", Arguments: "{}"}, {Name: "evaluation_criteria", Arguments: twoCriteria},
	}}}}
	made, err := MakeDraft(t.Context(), m, Criteria("q", 2, 2, fallback))
	require.NoError(t, err)
	require.Empty(t, made.Why)
	require.Len(t, made.Value, 2)
}

// After an invalid reply or a failed call, Make returns the fallback with the reason. It does not
// retry.
func TestMake_fallsBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		model *scripted
		why   string
	}{
		"a failed call":       {&scripted{err: errors.New("refused"), reply: llm.Reply{Usage: llm.Usage{ModelCalls: 1}}}, "refused"},
		"no object":           {says("I cannot."), "no JSON object"},
		"malformed":           {says(`{"criteria": [}`), "malformed"},
		"too few":             {says(`{"criteria": [{"text": "a", "category": "primary"}]}`), "has 1 criteria; asked were 2 to 3"},
		"too many":            {says(`{"criteria": [{"text":"a"},{"text":"b"},{"text":"c"},{"text":"d"}]}`), "has 4 criteria"},
		"nothing primary":     {says(`{"criteria": [{"text": "a"}, {"text": "b"}]}`), "none of the 2 criteria is primary"},
		"the same twice":      {says(`{"criteria": [{"text": "It runs.", "primary": true}, {"text": "it  runs."}]}`), "two criteria are the same"},
		"a criterion unnamed": {says(`{"criteria": [{"category": "primary"}, {"text": "b"}]}`), "no text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := MakeDraft(t.Context(), tc.model, Criteria("q", 2, 3, fallback))
			require.NoError(t, err)
			require.Equal(t, fallback, made.Value)
			require.Contains(t, made.Why, tc.why)
			require.EqualValues(t, 1, made.Usage.ModelCalls, "the call counts")
			require.Equal(t, 1, tc.model.calls)
		})
	}
}

func TestMake_endedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := MakeDraft(ctx, &scripted{err: errors.New("cut off")}, Personas("q", 2, "perspective"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestFall(t *testing.T) {
	t.Parallel()
	made := Subtasks("q", 2).Fall(errors.New("no\nkey"))
	require.Equal(t, "no key", made.Why)
	require.Len(t, made.Value, 2)
	require.Zero(t, made.Usage)
}

func TestPersonas(t *testing.T) {
	t.Parallel()
	f := Personas("Write a poem.", 2, "methodology")
	var properties struct{ Required []string }
	require.NoError(t, json.Unmarshal(f.Request.Form.Schema, &properties))
	require.Equal(t, []string{"agent1", "agent2"}, properties.Required)
	require.Contains(t, f.Request.Messages[1].Content, "work in different ways")

	made, err := MakeDraft(t.Context(), says(`{"agent1": " Begin at the end. ", "agent2": "Begin with sounds.", "agent3": "x"}`), f)
	require.NoError(t, err)
	require.Equal(t, []string{"Begin at the end.", "Begin with sounds."}, made.Value)

	for reply, why := range map[string]string{
		`{"agent1": "a"}`:                 "nothing for agent2",
		`{"agent1": "a", "agent2": "  "}`: "of agent2: the persona is no text",
		`{"agent1": "a", "agent2": 7}`:    "of agent2: the persona is no text",
	} {
		made, err := MakeDraft(t.Context(), says(reply), f)
		require.NoError(t, err)
		require.Contains(t, made.Why, why)
		require.Equal(t, generic["methodology"][:2], made.Value)
	}
}

// The generic personas of a mode differ from each other, and are reused in a large team.
func TestPersonas_generic(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"perspective", "implementation", "methodology"} {
		personas := builtinPersonas(6, mode)
		require.Equal(t, personas[0], personas[5])
		seen := map[string]bool{}
		for _, p := range personas[:5] {
			require.False(t, seen[p], p)
			seen[p] = true
		}
		require.NotEmpty(t, differences[mode])
	}
	require.Equal(t, generic["perspective"][:1], builtinPersonas(1, "unknown"))
}

func TestSubtasks(t *testing.T) {
	t.Parallel()
	f := Subtasks("Build a shop.", 2)
	made, err := MakeDraft(t.Context(), says(`{"agent1": "The server.", "agent2": {"subtask": "The page.", "criteria": [{"text": "It loads.", "category": "primary"}]}}`), f)
	require.NoError(t, err)
	require.Equal(t, []Subtask{
		{Subtask: "The server."},
		{Subtask: "The page.", Criteria: config.Criteria{{Text: "It loads.", Category: "primary"}}},
	}, made.Value)

	for reply, why := range map[string]string{
		`{"agent1": "a", "agent2": {"criteria": []}}`:                   "of agent2: the subtask is no text",
		`{"agent1": "a", "agent2": "a"}`:                                "agent1 and agent2 have the same subtask",
		`{"agent1": "a", "agent2": {"subtask": "b", "criteria": [{}]}}`: "no text",
		`[1]`: "no JSON object",
	} {
		made, err := MakeDraft(t.Context(), says(reply), f)
		require.NoError(t, err)
		require.Contains(t, made.Why, why)
		require.Equal(t, EqualParts(2), made.Value)
	}
	require.True(t, strings.HasPrefix(EqualParts(3)[2].Subtask, "Part 3 of 3"))
	require.Equal(t, "The whole task.", EqualParts(1)[0].Subtask)
}
