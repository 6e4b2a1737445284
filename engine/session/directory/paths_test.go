package directory

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/step"
)

// Temporary paths of workspaces are replaced by final paths, the longest match first. Similar paths
// are not changed.
func TestAdaptSpec_paths(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	store := s.store()
	work := newSession(t, map[string]string{"site/index.html": "x", "run.sh": "x"})
	_, manifest, err := artifact.OpenWorkingCopy(store, artifact.Layout{}, work.dir, "").Seal(t.Context())
	require.NoError(t, err)
	temporary := t.TempDir() + "/with a space"
	require.NoError(t, os.Mkdir(temporary, 0o755))
	spec, err := session.Step{
		Layout: artifact.Layout{}, Launch: coordination.Launch{Agent: "agent_a"}, Token: "t", Agents: []string{"agent_a", "agent_b", "agent_c", "gemini=2E5"},
		Scratch: temporary,
	}.Spec(t.Context(), store)
	require.NoError(t, err)
	spec = AdaptSpec(store, spec)

	own, peer := s.dir+"/agents/agent_a/003/workspace", s.dir+"/agents/agent_b/007/workspace"
	for text, want := range map[string]string{
		"nothing":                           "nothing",
		"TEMP/conclave-step-1/files/run.sh": "OWN/run.sh",
		"TEMP/conclave-step-1/files":        "OWN",
		"(TEMP/conclave-step-1/files/), TEMP/conclave-step-1/files.": "(OWN/), OWN.",
		"/tmp/conclave-worker-12/conclave-step-99/files/run.sh":      "OWN/run.sh", // of an earlier attempt
		"/private/tmp/conclave-step-99/files/run.sh":                 "OWN/run.sh",
		"file:///tmp/conclave-step-99/files/run.sh":                  "file://OWN/run.sh",
		"TEMP/conclave-step-1/files/peers/agent2/x.md":               "PEER/x.md",
		"/tmp/conclave-step-9/files/peers/agent2":                    "PEER",
		"/tmp/conclave-step-9/files/peers/agent2.md":                 "peers/agent2.md",
		"/tmp/conclave-step-9/files/peers/agent3/x":                  "peers/agent3/x",
		"/tmp/conclave-step-9/files/peers/agent4/x":                  s.dir + "/agents/gemini=2E5/001/workspace/x",
		"/workspace/peers/agent2/x.md":                               "PEER/x.md",
		"peers/agent2/x.md, (peers/agent2/y) and peers/agent1/z":     "PEER/x.md, (PEER/y) and peers/agent1/z",
		"src/peers/agent2/x.md":                                      "src/peers/agent2/x.md",
		"/workspace/run.sh, `/workspace/site/index.html`":            "OWN/run.sh, `OWN/site/index.html`",
		"/workspace/run.sh.":                                         "OWN/run.sh.",
		"WORKDIR /workspace":                                         "WORKDIR /workspace", // somebody else's
		"/workspace/node":                                            "/workspace/node",
		"/home/workspace/run.sh":                                     "/home/workspace/run.sh",
		"OWN/run.sh PEER/x":                                          "OWN/run.sh PEER/x",
		"conclave-step-1/files":                                      "conclave-step-1/files",
	} {
		replace := strings.NewReplacer("OWN", own, "PEER", peer, "TEMP", temporary)
		text, want = replace.Replace(text), replace.Replace(want)
		payload, err := json.Marshal(session.Answer{Answer: text, Label: "agent1.1"})
		require.NoError(t, err)
		documents, err := spec.Documents(3, artifact.Commit{Kind: "new_answer", Payload: payload, Manifest: manifest, SeenSteps: map[string]int{"agent_b": 7, "gemini=2E5": 1}})
		require.NoError(t, err)
		require.Equal(t, want, documents[0].Body.(artifact.Answer).Answer)
		last := lastAction(t, documents)
		require.Equal(t, want, *last.AnswerText)
		require.Equal(t, own, *last.WorkspacePath)
	}
}

func lastAction(t *testing.T, documents []step.Document) artifact.LastAction {
	t.Helper()
	last, ok := documents[len(documents)-1].Body.(artifact.LastAction)
	require.True(t, ok)
	return last
}

// A temporary path in a commit is replaced by a path below peers/, whatever machine wrote the
// commit.
func TestAnswers_pathsInACommit(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	for text, want := range map[string]string{
		"/tmp/conclave-worker-1/conclave-step-2/files/x, /tmp/conclave-step-2/files/peers/agent2/y": "peers/agent1/x, peers/agent2/y",
		"/workspace/x": "/workspace/x", // it has no such file
		s.dir + "/agents/agent_b/004/workspace/y": "peers/agent2/y",
	} {
		payload, err := json.Marshal(map[string]string{"answer": text})
		require.NoError(t, err)
		s.write("agents/agent_a/001/action.json", `{"token": "t", "kind": "new_answer", "payload": `+string(payload)+`}`)
		s.write("agents/agent_b/004/answer.json", answerJSON("B"))
		got, _, _ := s.shown("agent_a", "agent_b")
		require.Equal(t, want, got)
	}
}
