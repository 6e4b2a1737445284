package step_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// The initial files belong to the step. It can change and remove them, even after an interruption,
// and commits the result.
func TestInitialFiles(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Shown.Files = b.peer(0, "kept.md", "as it was", "src/draft.md", "old").Manifest

	_, err := b.run(writeCall("src/draft.md", "new"))
	require.Error(t, err, "the script is over: the attempt has died")
	second := &rules{}
	result := again(t, b, second, writeCall("more.md", "added"), llm.Message{Role: llm.Assistant, Content: "done"})
	require.Equal(t, []string{"kept.md", "more.md", "src/draft.md"}, manifest(t, b, result))

	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	body, err := b.store.Get(t.Context(), b.spec.Layout.Blob(m.Files[2].SHA256))
	require.NoError(t, err)
	require.Equal(t, "new", string(body))
}

func TestInitialFiles_unchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	b.spec.Shown.Files = b.peer(0, "kept.md", "as it was").Manifest
	result, err := b.run(llm.Message{Role: llm.Assistant, Content: "done"})
	require.NoError(t, err)
	require.Equal(t, b.spec.Shown.Files, result.Commit.Manifest)
}
