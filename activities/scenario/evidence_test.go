//go:build unix

package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// newRecorder returns record_evidence of step 02 of a run, with an empty workspace.
func newRecorder(t *testing.T, secrets ...string) (r recorder, say func(map[string]any) string) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	dir := t.TempDir()
	files, err := tools.Open(t.Context(), dir, tools.Set{Files: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	r = recorder{
		others: files, workspace: dir, store: store, layout: artifact.InScenario("buy", "r1"), run: "r1", step: "02", attempt: 1,
		vault: text.NewVault("seed", secrets), now: time.Now, read: tools.ReadFile,
	}
	return r, func(arguments map[string]any) string {
		data, err := json.Marshal(arguments)
		require.NoError(t, err)
		out, err := r.Run(t.Context(), llm.ToolCall{ID: "c", Name: scenario.EvidenceTool, Arguments: string(data)})
		require.NoError(t, err)
		return out.Text
	}
}

func picture(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))))
	return b.Bytes()
}

func (r recorder) kept(t *testing.T, file string) string {
	t.Helper()
	body, err := r.store.Get(t.Context(), r.layout.Evidence("02", 1, file))
	require.NoError(t, err)
	return string(body)
}

func TestEvidence_filesAndText(t *testing.T) {
	t.Parallel()
	r, say := newRecorder(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.workspace, "shot.png"), picture(t), 0o600))
	require.Equal(t, fmt.Sprintf("recorded step-02/evidence/before.png (%d bytes)", len(picture(t))),
		say(map[string]any{"name": "before", "type": "screenshot", "path": "shot.png"}), "the path and the size, nothing of the content")
	require.Contains(t, say(map[string]any{"name": "after.png", "type": "screenshot", "path": filepath.Join(r.workspace, "shot.png")}), "after.png", "as other programs tell it")
	require.Contains(t, say(map[string]any{"name": "net", "type": "network_log", "data": `{"status":200}`}), "net.json")
	require.Contains(t, say(map[string]any{"name": "net2", "type": "network_log", "data": "GET / 200"}), "net2.json")
	require.JSONEq(t, `"GET / 200"`, r.kept(t, "net2.json"), "text that is not JSON is stored as a JSON string")

	meta, err := artifact.ReadJSON[scenario.Evidence](t.Context(), r.store, r.layout.Evidence("02", 1, "before.meta.json"))
	require.NoError(t, err)
	require.Equal(t, "image/png", meta.ContentType)
	require.Equal(t, int64(len(picture(t))), meta.Size)

	evidence, err := evidenceOf(t.Context(), r.store, r.layout, "02", 1, 1)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"step-02/evidence/after.png", "step-02/evidence/before.png", "step-02/evidence/net.json", "step-02/evidence/net2.json",
	}, evidence)
}

// Files that are not text are stored unchanged, under their own formats; every attempt has
// its own directory.
func TestEvidence_binary(t *testing.T) {
	t.Parallel()
	r, say := newRecorder(t)
	for name, content := range map[string]string{
		"trace.zip": "PK\x03\x04\xff\xfe", "film.webm": "\x1a\x45\xdf\xa3\xff", "shot.jpg": "\xff\xd8\xff\xe0\x00", "bill.pdf": "%PDF-1.7\n\xff", "heap.prof": "\x1f\x8b\xff\x00",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(r.workspace, name), []byte(content), 0o600))
	}
	for _, c := range [][3]string{
		{"trace", "trace.zip", "t.zip"},
		{"video", "film.webm", "t.webm"},
		{"screenshot", "shot.jpg", "t.jpg"},
		{"pdf", "bill.pdf", "t.pdf"},
		{"custom", "heap.prof", "t.prof"},
	} {
		r.attempt++
		data, err := json.Marshal(map[string]string{"name": "t", "type": c[0], "path": c[1]})
		require.NoError(t, err)
		out, err := r.Run(t.Context(), llm.ToolCall{Name: scenario.EvidenceTool, Arguments: string(data)})
		require.NoError(t, err)
		require.Contains(t, out.Text, fmt.Sprintf("recorded step-02/attempt-%d/evidence/%s", r.attempt, c[2]))
		want, err := os.ReadFile(filepath.Join(r.workspace, c[1]))
		require.NoError(t, err)
		kept, err := r.store.Get(t.Context(), r.fileKey(c[2]))
		require.NoError(t, err)
		require.Equal(t, want, kept, "byte for byte")
	}
	paths, err := evidenceOf(t.Context(), r.store, r.layout, "02", 2, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"step-02/attempt-2/evidence/t.zip", "step-02/attempt-3/evidence/t.webm"}, paths)
	require.Contains(t, say(map[string]any{"name": "raw", "type": "stdout", "path": "heap.prof"}), "bytes that are not UTF-8 were replaced")
}

// A shared browser writes to its own directory. A file there counts if it was written
// during the step and is not hidden.
func TestEvidence_ofASharedServer(t *testing.T) {
	t.Parallel()
	r, _ := newRecorder(t)
	dir := t.TempDir()
	r.shared, r.began = func() []string { return []string{dir} }, time.Now().Add(-time.Minute)
	for _, name := range []string{"new.png", "old.png", ".config/cookies.png"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), picture(t), 0o600))
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, "old.png"), time.Time{}, r.began.Add(-time.Second)))
	for path, want := range map[string]string{
		"new.png": "recorded step-02", filepath.Join(dir, "new.png"): "recorded step-02", "old.png": "there is no", ".config/cookies.png": "there is no",
	} {
		data, err := json.Marshal(map[string]string{"name": "x", "type": "screenshot", "path": path})
		require.NoError(t, err)
		out, err := r.Run(t.Context(), llm.ToolCall{Name: scenario.EvidenceTool, Arguments: string(data)})
		require.NoError(t, err)
		require.Contains(t, out.Text, want, path)
	}
}

// Refusals name the reason to the agent and store nothing.
func TestEvidence_refusals(t *testing.T) {
	t.Parallel()
	r, say := newRecorder(t, "hunter2")
	outside := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(outside, []byte("x"), 0o600))
	in := func(name string) string { return filepath.Join(r.workspace, name) }
	require.NoError(t, os.Symlink(outside, in("link.txt")))
	require.NoError(t, os.Link(outside, in("hard.txt")))
	require.NoError(t, os.Mkdir(in("dir"), 0o700))
	require.NoError(t, os.WriteFile(in("text.txt"), []byte("x"), 0o600))
	large, err := os.Create(in("large.txt"))
	require.NoError(t, err)
	require.NoError(t, large.Truncate(10<<20+1))
	require.NoError(t, large.Close())
	require.NoError(t, makeFIFO(in("fifo")))

	file := func(path string) map[string]any { return map[string]any{"name": "x", "type": "stdout", "path": path} }
	for why, arguments := range map[string]map[string]any{
		"leads out of the workspace by": file("link.txt"),
		"leads out of the workspace;":   file("../secret.txt"),
		"is absolute":                   file(outside),
		"hard links":                    file("hard.txt"),
		"not a regular file":            file("fifo"),
		"is a directory":                file("dir"),
		"there is no":                   file("gone.txt"),
		"more than 10.0 MB":             file("large.txt"),
		"a screenshot is a file of the format png or jpg or webp": {"name": "x", "type": "screenshot", "path": "text.txt"},
		"needs a path":          {"name": "x", "type": "screenshot", "data": "iVBORw0KGgo="},
		"at most":               {"name": "x", "type": "stdout", "data": strings.Repeat("x", 10<<20+1)},
		"neither path nor data": {"name": "x", "type": "stdout"},
		"both path and data":    {"name": "x", "type": "stdout", "path": "text.txt", "data": "y"},
		"no type":               {"name": "x", "type": "film", "data": "y"},
		"the name \"../../x\"":  {"name": "../../x", "type": "stdout", "data": "y"},
		"unknown field":         {"name": "x", "type": "stdout", "data": "y", "step": "01"},
		"holds a credential":    {"name": "hunter2", "type": "stdout", "data": "y"},
	} {
		require.Contains(t, say(arguments), why)
	}
	for key, err := range r.store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, "something is kept", key)
	}
}

// Issue: "evidence is never overwritten". Other content under the same name gets a name of its
// own, the same content is kept once, and another type under the name is refused.
func TestEvidence_nameBelongsToOneType(t *testing.T) {
	t.Parallel()
	r, say := newRecorder(t)
	for _, text := range []string{"first", "second"} {
		require.Contains(t, say(map[string]any{"name": "log", "type": "stdout", "data": text}), "recorded")
	}
	require.Equal(t, "first", r.kept(t, "log.txt"))
	require.Equal(t, "second", r.kept(t, "log-2.txt"))
	require.Equal(t, "recorded step-02/evidence/log-2.txt (6 bytes)", say(map[string]any{"name": "log", "type": "stdout", "data": "second"}))
	require.Contains(t, r.kept(t, "log-2.meta.json"), `"name": "log-2"`)
	for _, kind := range []string{"stderr", "custom"} {
		require.Contains(t, say(map[string]any{"name": "log", "type": kind, "data": "third"}), "is already used for a stdout")
	}
	require.Equal(t, "first", r.kept(t, "log.txt"))
	for n := range maxPieces - 2 {
		require.Contains(t, say(map[string]any{"name": fmt.Sprintf("n%d", n), "type": "stdout", "data": "x"}), "recorded")
	}
	require.Contains(t, say(map[string]any{"name": "more", "type": "stdout", "data": "x"}), "the most allowed")
	require.Contains(t, say(map[string]any{"name": "log", "type": "stdout", "data": "x"}), "the most allowed")
	require.Contains(t, say(map[string]any{"name": "log", "type": "stdout", "data": "first"}), "recorded step-02/evidence/log.txt")
}

func TestEvidence_hasNoCredentials(t *testing.T) {
	t.Parallel()
	r, say := newRecorder(t, `pa"ss`, "12345")
	require.Contains(t, say(map[string]any{"name": "a", "type": "html_snapshot", "data": `<input value='pa"ss'>`}), "recorded")
	require.Equal(t, "<input value='[redacted]'>", r.kept(t, "a.html"))
	require.Contains(t, say(map[string]any{"name": "b", "type": "api_response", "data": `{"password":"pa\"ss"}`}), "recorded")
	require.JSONEq(t, `{"password":"[redacted]"}`, r.kept(t, "b.json"))
	require.Contains(t, say(map[string]any{"name": "c", "type": "api_response", "data": `{"pin":12345}`}), "recorded")
	require.True(t, json.Valid([]byte(r.kept(t, "c.json"))))
	require.NotContains(t, r.kept(t, "c.json"), "12345")

	// The call in the journal has markers, which are restored.
	data := `{"name":"d","type":"stdout","data":"` + r.vault.Hide("it is 12345") + `"}`
	require.NotContains(t, data, "12345")
	out, err := r.Run(t.Context(), llm.ToolCall{Name: scenario.EvidenceTool, Arguments: data})
	require.NoError(t, err)
	require.Contains(t, out.Text, "recorded")
	require.Equal(t, "it is [redacted]", r.kept(t, "d.txt"))
}

// A file without a description, or with one by another name, does not count.
func TestEvidence_needsItsDescription(t *testing.T) {
	t.Parallel()
	r, _ := newRecorder(t)
	put := func(name, body string) {
		require.NoError(t, r.store.Put(t.Context(), r.layout.Evidence("02", 1, name), strings.NewReader(body)))
	}
	put("orphan.txt", "x")
	put("gone.meta.json", `{"file":"gone.txt"}`)
	put("other.meta.json", `{"file":"orphan.txt"}`)
	put("broken.meta.json", `{`)
	evidence, err := evidenceOf(t.Context(), r.store, r.layout, "02", 1, 1)
	require.NoError(t, err)
	require.Empty(t, evidence)
}

// "paths that the agent claims but that don't exist become warnings"
func TestReconcile(t *testing.T) {
	t.Parallel()
	evidence, warnings := reconcileEvidence([]string{"b.png", "ghost.png"}, []string{"b.png", "a.png"})
	require.Equal(t, []string{"a.png", "b.png"}, evidence)
	require.Equal(t, []string{`the agent named the evidence "ghost.png", which does not exist`}, warnings)
}
