package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

// "Credentials of prd.md never appear": whatever way they are written down.
func TestSecrets_HoweverWritten(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"Password: hunter2":                                  {"hunter2"},
		"- **Password**: `hunter2` (changes weekly)":         {"hunter2"},
		"User: alice, password: hunter2":                     {"alice", "hunter2"},
		"password = \"two words\"":                           {"two words"},
		"Password: hunter2 for everybody":                    {"hunter2"},
		"API key: sk-12345":                                  {"sk-12345"},
		"## Authentication\n\nalice@example.com / hunter2":   {"alice@example.com", "hunter2"},
		"## Test accounts\n\n| alice | hunter2 |":            {"hunter2"},
		"Base URL: http://alice:hunter2@127.0.0.1:3000/":     {"alice", "hunter2", "alice:hunter2", "YWxpY2U6aHVudGVyMg=="},
		"See <https://a%40b.org:p%40ss!@example.org/x>.":     {"a%40b.org", "a@b.org", "p%40ss!", "p@ss!"},
		"Database: postgres://ab:cd@db/shop":                 {"ab:cd"},
		"Mirror: https://ghp_12345@example.org/":             {"ghp_12345"},
		"Authorization: Bearer eyJhbGciOi":                   {"eyJhbGciOi"},
		"pwd: hunter2":                                       {"hunter2"},
		"## Users\n\nalice@example.com, who may do anything": {"alice@example.com"},
		"## Test accounts\n\n- alice: hunter2":               {"hunter2"},
		"## Login\n\nSign in with `alice` and `correct=1`.":  {"alice", "correct=1"},
	} {
		require.Subset(t, scenario.Secrets(line), want, line)
	}
	for _, line := range []string{
		"Base URL: http://127.0.0.1:3000", "PIN: 123", "## Accounts\n\n|---|---|", "`make run` starts it", "Pages: 4 / 12",
		"http://127.0.0.1:3000/?from=a@b", "http://127.0.0.1:3000/people/@alice", "Ask support@example.com", "## Login\n\n- Method: form-based\n- Page: /login1",
	} {
		require.Empty(t, scenario.Secrets(line), line)
	}
}

// The description of evidence has a name that no other evidence can take.
func TestCheckEvidence_NamesOfDescriptions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"before.meta", "before.meta.json", "before.META.json"} {
		_, _, err := scenario.CheckEvidence(name, "custom")
		require.Error(t, err, name)
	}
}
