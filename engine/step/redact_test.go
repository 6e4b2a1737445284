package step_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// without returns a function that removes a secret from plain text, ignoring JSON.
func without(secret string) func([]byte) []byte {
	return func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(secret), []byte("[redacted]")) }
}

// stored returns every object in the store except workspace files, by key.
func (b *bench) stored() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for key, err := range b.store.List(b.t.Context(), "") {
		require.NoError(b.t, err)
		data, err := b.store.Get(b.t.Context(), key)
		require.NoError(b.t, err)
		all[key] = string(data)
	}
	return all
}

// secrets are difficult within JSON: they contain quotes, backslashes or HTML characters, or they
// start or end within an escape sequence.
var secrets = map[string]string{
	"plain":              "sk-very-secret",
	"escaped":            `sk"very\<sec>&ret`,
	"ends in a slash":    `sk-very-secret\`,
	"begins like an end": "n-very-secret",
	"like structure":     `"},{"role":"`,
}

// Contract, section 4: keys never appear in an artifact. This includes the journal of an
// interrupted step, and the conversation resumed from it.
func TestRedact_journal(t *testing.T) {
	t.Parallel()
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			ports := b.ports(call("list_files", map[string]string{"path": secret, secret: "x"}), done("It is "+secret+"."))
			ports.Redact = without(secret)
			replied := false
			ports.Progress = func(p step.Progress) { replied = replied || p.Last == loop.Reply }
			leaseOf(&ports).alive = failing(errKilled, func() bool { return replied })
			_, err := step.Run(t.Context(), ports, b.spec)
			require.ErrorIs(t, err, errKilled)
			found := false
			for key, text := range b.stored() {
				if !strings.Contains(key, "journal") {
					continue
				}
				found = true
				require.True(t, json.Valid([]byte(text)), key)
				require.Contains(t, text, "[redacted]")
			}
			require.True(t, found)
			unfinished, err := b.transcript(1)
			require.NoError(t, err)
			require.Len(t, unfinished.Lines, 2)
			var arguments map[string]string
			require.NoError(t, json.Unmarshal([]byte(unfinished.Lines[1].Messages[0].ToolCalls[0].Arguments), &arguments))
			require.Equal(t, "[redacted]", arguments["path"])
			require.Equal(t, "x", arguments["[redacted]"], "names, too, within the model's own JSON")

			// The resumed conversation does not contain the secret either.
			b.again()
			ports = b.ports(done("It is " + secret + "."))
			ports.Redact = without(secret)
			result, err := step.Run(t.Context(), ports, b.spec)
			require.NoError(t, err)
			require.JSONEq(t, `"It is [redacted]."`, string(result.Commit.Payload))
			over, err := b.transcript(1)
			require.NoError(t, err)
			require.Equal(t, "It is [redacted].", over.Lines[len(over.Lines)-2].Messages[0].Content)
		})
	}
}

// Contract, section 4: keys never appear in an artifact, even if the model repeats one in its
// action. Workspace files are not changed.
func TestRedact_action(t *testing.T) {
	t.Parallel()
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			b.spec.Seal = func(a loop.Action) (step.Sealed, error) {
				payload, err := json.Marshal(map[string]json.RawMessage{"answer": a.Payload})
				return step.Sealed{Payload: payload, Workspace: true}, err
			}
			ports := b.ports(call("write_file", map[string]string{"path": "a", "content": secret}), done("It is "+secret+"."))
			ports.Redact = without(secret)
			result, err := step.Run(t.Context(), ports, b.spec)
			require.NoError(t, err)
			require.JSONEq(t, `{"answer":"It is [redacted]."}`, string(result.Commit.Payload))
			stored, err := artifact.ReadJSON[artifact.Commit](t.Context(), b.store, b.spec.Layout.Step("agent_a", 1, "action.json"))
			require.NoError(t, err)
			require.JSONEq(t, `{"answer":"It is [redacted]."}`, string(stored.Payload))
			file, err := b.store.Get(t.Context(), b.spec.Dir(1)+"workspace/a")
			require.NoError(t, err)
			require.Equal(t, secret, string(file))
		})
	}
}

// A server's error may repeat the key that it refuses.
func TestRedact_abandoned(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports()
	ports.Redact = without("sk-very-secret")
	cause := artifact.Error{Type: "AuthFailed", Message: "incorrect key sk-very-secret"}
	require.NoError(t, step.Abandon(t.Context(), ports, b.spec, step.Result{Step: 1}, cause))
	outputs, err := artifact.ReadJSON[artifact.Error](t.Context(), b.store, b.spec.Layout.Agent("agent_a", "last_action.json"))
	require.NoError(t, err)
	require.Equal(t, "incorrect key [redacted]", outputs.Message)
}
