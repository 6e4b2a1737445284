package step_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// bucket is a store that is not a directory.
type bucket struct{ artifact.Store }

// abandoned runs a step that writes two files, ends without an action and is given up. It returns
// the resulting last_action.json.
func abandoned(t *testing.T, b *bench) artifact.LastAction {
	t.Helper()
	var last artifact.LastAction
	b.spec.Abandoned = func(l artifact.LastAction) []step.Document { last = l; return nil }
	result, err := b.run(writeCall("plan", "half of it"), writeCall("more/notes", "x"), writeCall("plan", "all of it"))
	require.ErrorIs(t, err, errScriptOver)
	require.NoError(t, step.Abandon(t.Context(), b.ports(), b.spec, result, artifact.Error{Type: "NoAction", Message: "none"}))
	step.Forget(t.Context(), b.store, b.spec.Layout.Journals(b.spec.Token))
	return last
}

// "When a step ends without an action its workspace and transcript stay under the step."
func TestAbandon_keepsTheFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	last := abandoned(t, b)
	require.Equal(t, b.store.URL("agents/agent_a/001/partial"), *last.PartialPath)
	require.Equal(t, *last.PartialPath, asJSON(t, last)["partial_path"])
	content, err := os.ReadFile(*last.PartialPath + "/plan")
	require.NoError(t, err)
	require.Equal(t, "all of it", string(content))
	m, err := artifact.ReadJSON[artifact.Manifest](t.Context(), b.store, "agents/agent_a/001/partial.json")
	require.NoError(t, err)
	require.Len(t, m.Files, 2)
}

// A bucket contains only the manifest; the files are blobs.
func TestAbandon_bucketHasTheManifest(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	b.store = bucket{b.store}
	last := abandoned(t, b)
	require.Equal(t, b.store.URL("agents/agent_a/001/partial.json"), *last.PartialPath)
	there, err := b.store.Exists(t.Context(), "agents/agent_a/001/partial/plan")
	require.NoError(t, err)
	require.False(t, there)
}

func TestAbandon_withoutFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	var last artifact.LastAction
	b.spec.Abandoned = func(l artifact.LastAction) []step.Document { last = l; return nil }
	result, err := b.run(read("plan"))
	require.ErrorIs(t, err, errScriptOver)
	require.NoError(t, step.Abandon(t.Context(), b.ports(), b.spec, result, artifact.Error{Type: "NoAction"}))
	require.Nil(t, last.PartialPath)
	require.Contains(t, asJSON(t, last), "partial_path", "null, not absent")
}

// asJSON returns the keys of last_action.json.
func asJSON(t *testing.T, last artifact.LastAction) map[string]any {
	t.Helper()
	data, err := json.Marshal(last)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(data, &keys))
	return keys
}

// Notes among the files that are given back are shown.
func TestFilesGivenBack_withNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	b.spec.Abandoned = func(artifact.LastAction) []step.Document { return nil }
	result, err := b.run(writeCall("memory/short_term/verification_latest.md", "Count twice."), writeCall("plan", "half of it"))
	require.ErrorIs(t, err, errScriptOver)
	require.NoError(t, step.Leave(t.Context(), b.ports(), b.spec, result))
	step.Forget(t.Context(), b.store, b.spec.Layout.Journals(b.spec.Token))

	r := &rules{}
	b.spec.Token, b.spec.After, b.spec.Attempt = "run-l2", 1, step.Attempt{FilesFrom: "run-l1"}
	again(t, b, r, done("Two."))
	opening := r.learned[0].Messages
	require.Contains(t, opening[len(opening)-1].Content, "Your notes in memory/short_term/verification_latest.md:\n\nCount twice.")
	require.NotContains(t, opening[len(opening)-1].Content, "half of it")
}

// "The retried step starts with those files". It is told so, even after it was itself interrupted.
func TestFilesGivenBack(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]step.Attempt{
		"resumed without a journal": {ResumeFrom: "run-l1"},
		"launched anew":             {FilesFrom: "run-l1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			abandoned(t, b)
			b.spec.Token, b.spec.After, b.spec.Attempt = "run-l2", 1, given
			_, err := b.run(read("plan"))
			require.ErrorIs(t, err, errScriptOver)
			r := &rules{}
			result := again(t, b, r, writeCall("new", "x"), done("Two."))
			require.Equal(t, []string{"more/notes", "new", "plan"}, manifest(t, b, result))
			opening := r.learned[0].Messages
			require.Contains(t, opening[len(opening)-1].Content, "the files of your earlier turn")
			require.Contains(t, results(r.learned)[0], "all of it")
		})
	}
}

// Files that were given back belong to the step. They are kept if the step ends without an action,
// or is suspended and resumed.
func TestFilesGivenBack_again(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	abandoned(t, b)
	open := func(step.Access) (loop.Rules, []llm.Message, error) {
		return &rules{}, []llm.Message{{Role: llm.User, Content: "again"}}, nil
	}
	b.spec.Token, b.spec.After, b.spec.Attempt, b.spec.Open = "run-l2", 1, step.Attempt{FilesFrom: "run-l1"}, open
	result, err := b.run(writeCall("second", "x"))
	require.ErrorIs(t, err, errScriptOver)
	require.Len(t, result.Partial.Changed, 3)
	recovered, err := step.Recover(t.Context(), b.ports(), b.spec)
	require.NoError(t, err)
	require.Equal(t, result.Partial.Changed, recovered.Partial.Changed)

	b.spec.Token, b.spec.After, b.spec.Attempt = "run-l3", 2, step.Attempt{ResumeFrom: "run-l2"}
	result, err = b.run(done("Three."))
	require.NoError(t, err)
	require.Equal(t, []string{"more/notes", "plan", "second"}, manifest(t, b, result))
}

// If a step was cut off, its files are read from its journal.
func TestFilesGivenBack_fromTheJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := b.run(writeCall("plan", "half of it"), writeCall("plan", "all of it"))
	require.ErrorIs(t, err, errScriptOver)
	b.spec.Token, b.spec.After, b.spec.Attempt = "run-l2", 1, step.Attempt{FilesFrom: "run-l1"}
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
		return &rules{}, []llm.Message{{Role: llm.User, Content: "again"}}, nil
	}
	result, err := b.run(done("Two."))
	require.NoError(t, err)
	require.Equal(t, []string{"plan"}, manifest(t, b, result))
}

// A damaged list of files is reported rather than ignored.
func TestFilesGivenBack_damaged(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	abandoned(t, b)
	require.NoError(t, errors.Join(
		b.store.Delete(t.Context(), "agents/agent_a/001/partial.json"),
		b.store.Create(t.Context(), "agents/agent_a/001/partial.json", []byte("{")),
	))
	b.spec.Token, b.spec.After, b.spec.Attempt = "run-l2", 1, step.Attempt{FilesFrom: "run-l1"}
	_, err := b.run(done("Two."))
	require.ErrorContains(t, err, "read the files of the earlier step")
}

// Nor are files with reserved names given back that such a list names.
func TestFilesGivenBack_reservedNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".git/hooks/pre-commit", ".GIT", "git~1/config", ".conclave-apply/journal"} {
		b := newBench(t, &rules{})
		abandoned(t, b)
		c, err := artifact.ReadJSON[artifact.Change](t.Context(), b.store, "agents/agent_a/001/partial.json")
		require.NoError(t, err)
		c.Files[0].Path = name
		require.NoError(t, artifact.PutJSON(t.Context(), b.store, "agents/agent_a/001/partial.json", c))
		b.spec.Token, b.spec.After, b.spec.Attempt = "run-l2", 1, step.Attempt{FilesFrom: "run-l1"}
		_, err = b.run(done("Two."))
		require.ErrorContains(t, err, "choose another", name)
		require.NoDirExists(t, b.work+"/"+name)
		require.NoFileExists(t, b.work+"/"+name)
	}
}
