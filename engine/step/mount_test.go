package step_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// at returns a function that runs each function in do once, at the safe point after the given
// number of replies.
func at(do map[int]func(context.Context)) func(context.Context, int) (loop.Update, error) {
	return func(ctx context.Context, replies int) (loop.Update, error) {
		if now := do[replies]; now != nil {
			now(ctx)
		}
		return loop.Update{}, nil
	}
}

// Seed 003: "WORKSPACE UPDATE: your workspace files are preserved; temp workspace may
// contain new files from other agents."
func TestMount_whileRunning(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Shown.Peers = []step.Peer{b.peer(2, "old.md", "first answer", "deep/x.md", "x")}
	mount := func(p step.Peer) func(context.Context) {
		return func(ctx context.Context) { require.NoError(t, b.mount(ctx, p)) }
	}
	r.updates = at(map[int]func(context.Context){
		2: mount(b.peer(2, "new.md", "second answer", "deep/y.md", "y")),
		5: mount(b.peer(3, "a.md", "of another")),
		6: mount(step.Peer{Number: 2}),
	})
	result, err := b.run(
		call("write_file", map[string]string{"path": "mine.md", "content": "mine"}),
		read("peers/agent2/old.md"),
		read("peers/agent2/old.md"),
		read("peers/agent2/new.md"),
		call("write_file", map[string]string{"path": "peers/agent2/new.md", "content": "mine"}),
		call("list_files", map[string]string{"path": "peers"}),
		call("list_files", map[string]string{"path": "peers"}),
		done("Two."),
	)
	require.NoError(t, err)
	outputs := results(r.learned)
	require.Len(t, outputs, 7)
	require.Equal(t, "first answer", outputs[1])
	require.Contains(t, outputs[2], "peers/agent2/old.md", "the older answer's files are gone")
	require.NotContains(t, outputs[2], "first answer")
	require.Equal(t, "second answer", outputs[3])
	require.Contains(t, outputs[4], "read-only")
	require.Contains(t, outputs[5], "agent2")
	require.Contains(t, outputs[5], "agent3")
	require.NotContains(t, outputs[6], "agent2", "an answer without files removes the older ones")
	require.Contains(t, outputs[6], "agent3")

	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	require.Len(t, m.Files, 1, "of all this only the step's own file is its answer's")
	require.Equal(t, "mine.md", m.Files[0].Path)
	left, err := os.ReadDir(b.scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The workspace of a running step contains only its own files and peers/, which is read-only.
func TestMount_nothingElse(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	first, second := b.peer(2, "a/b/c.md", "x"), b.peer(2, "a/b/d.md", "y")
	r.updates = at(map[int]func(context.Context){0: func(ctx context.Context) {
		require.NoError(t, b.mount(ctx, step.Peer{Number: 1}))
		require.NoDirExists(t, filepath.Join(b.work, "peers"), "a workspace starts empty")
		require.NoError(t, b.mount(ctx, first))
		require.NoError(t, b.mount(ctx, second))
		var found []string
		require.NoError(t, filepath.WalkDir(filepath.Dir(b.work), func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(filepath.Dir(b.work), path)
			found = append(found, name)
			if info, err := entry.Info(); err == nil && len(name) > len("files/peers") {
				require.Zero(t, info.Mode()&0o222, name)
			}
			return err
		}))
		require.Equal(t, []string{".", "files", "files/peers", "files/peers/agent2", "files/peers/agent2/a", "files/peers/agent2/a/b", "files/peers/agent2/a/b/d.md"}, found)
	}})
	_, err := b.run(done("Two."))
	require.NoError(t, err)
}

func TestMount_failureKeepsOldFiles(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Shown.Peers = []step.Peer{b.peer(2, "old.md", "first answer")}
	b.spec.Shown.Peers[0].Text = "first text"
	cut := b.peer(2, "new.md", "second answer", "z.md", "gone")
	cut.Text = "second text"
	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, cut.Manifest)
	require.NoError(t, err)
	m.Files[1].SHA256 = m.Files[0].SHA256 // the content of another file is not that of this one
	lost, err := json.Marshal(m)
	require.NoError(t, err)
	cut.Manifest, err = artifact.PutBlob(t.Context(), b.store, b.spec.Layout, lost)
	require.NoError(t, err)
	r.updates = at(map[int]func(context.Context){0: func(ctx context.Context) {
		require.ErrorIs(t, b.mount(ctx, cut), artifact.ErrCorrupt)
		require.ErrorIs(t, b.mount(ctx, step.Peer{Number: 2, Manifest: strings.Repeat("0", 64)}), artifact.ErrNotFound)
		entries, err := os.ReadDir(filepath.Dir(b.work))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing restored remains")
	}})
	_, err = b.run(read("peers/agent2/old.md"), read("peers/agent2.md"), done("Two."))
	require.NoError(t, err)
	require.Equal(t, []string{"first answer", "first text"}, results(r.learned))
}

// Links that a tool left at the mount points are not followed.
func TestMount_linksNotFollowed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"peers", "peers/agent2"} {
		for _, target := range []string{"outside", "inside"} {
			t.Run(name+" "+target, func(t *testing.T) {
				t.Parallel()
				r := &rules{}
				b := newBench(t, r)
				peer := b.peer(2, "a.md", "theirs")
				outside := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o640))
				r.updates = at(map[int]func(context.Context){1: func(ctx context.Context) {
					link := filepath.Join(b.work, name)
					require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
					to := outside
					if target == "inside" {
						to = filepath.Join(b.work, "dir")
					}
					require.NoError(t, os.Symlink(to, link))
					require.NoError(t, b.mount(ctx, peer))
				}})
				result, err := b.run(
					call("write_file", map[string]string{"path": "dir/mine.md", "content": "mine"}),
					read("peers/agent2/a.md"), done("Two."))
				require.NoError(t, err)
				require.Equal(t, "theirs", results(r.learned)[1])
				require.Equal(t, 1, result.Files, "no peer's file is in the manifest")
				entries, err := os.ReadDir(outside)
				require.NoError(t, err)
				require.Len(t, entries, 1)
			})
		}
	}
}

// A text that is too long for the prompt is a read-only file beside the files of its answer. It is
// not one of the step's own files, and the agent's next answer removes it.
func TestMount_wholeTexts(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	long := strings.Repeat("All of it, line by line.\n", 400)
	b.spec.Shown.Peers = []step.Peer{{Number: 2, Text: long}}
	also := b.peer(3, "a.md", "of another")
	also.Text = "The third's."
	short := b.peer(2, "new.md", "second answer")
	r.updates = at(map[int]func(context.Context){
		5: func(ctx context.Context) { require.NoError(t, b.mount(ctx, also)) },
		7: func(ctx context.Context) {
			require.NoError(t, b.mount(ctx, step.Peer{Number: 2, Text: "A newer one."}))
		},
		8: func(ctx context.Context) { require.NoError(t, b.mount(ctx, short)) },
	})
	result, err := b.run(
		read("peers/agent2.md"),
		call("write_file", map[string]string{"path": "peers/agent2.md", "content": "mine"}),
		call("edit_file", map[string]string{"path": "peers/agent2.md", "old_string": "All", "new_string": "None"}),
		call("search_files", map[string]string{"pattern": "line by", "path": "peers"}),
		call("write_file", map[string]string{"path": "mine.md", "content": "mine"}),
		read("peers/agent3.md"),
		read("peers/agent3/a.md"),
		read("peers/agent2.md"),
		call("list_files", map[string]string{"path": "peers"}),
		done("Two."),
	)
	require.NoError(t, err)
	outputs := results(r.learned)
	require.Len(t, outputs, 9)
	require.Equal(t, long, outputs[0])
	require.Contains(t, outputs[1], "read-only")
	require.Contains(t, outputs[2], "read-only")
	require.Contains(t, outputs[3], "peers/agent2.md")
	require.Equal(t, "The third's.", outputs[5])
	require.Equal(t, "of another", outputs[6])
	require.Equal(t, "A newer one.", outputs[7])
	require.NotContains(t, outputs[8], "agent2.md", "the newest answer is shown whole")
	require.Contains(t, outputs[8], "agent3.md")

	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	require.Len(t, m.Files, 1)
	require.Equal(t, "mine.md", m.Files[0].Path)
}

// The journal's file changes exclude mounted texts.
func TestMount_notJournaled(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	b.spec.Shown.Peers = []step.Peer{{Number: 2, Text: "All of it."}}
	_, err := b.run(call("write_file", map[string]string{"path": "mine.md", "content": "mine"}), read("mine.md"))
	require.ErrorIs(t, err, errScriptOver)
	entries := 0
	for key, err := range b.store.List(t.Context(), "journal/") {
		require.NoError(t, err)
		data, err := b.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NotContains(t, string(data), "agent2.md")
		entries += strings.Count(string(data), `"path": "mine.md"`)
	}
	require.Equal(t, 1, entries, "of all files only the step's own")
}

// Links that a tool left in place of a peer's text are not followed, and are removed.
func TestMountText_linksNotFollowed(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"a link", "a directory", "a file"} {
		for _, text := range []string{"theirs", ""} {
			t.Run(left+" "+text, func(t *testing.T) {
				t.Parallel()
				r := &rules{}
				b := newBench(t, r)
				outside := filepath.Join(t.TempDir(), "kept")
				require.NoError(t, os.WriteFile(outside, []byte("kept"), 0o640))
				r.updates = at(map[int]func(context.Context){0: func(ctx context.Context) {
					place := filepath.Join(b.work, "peers", "agent2.md")
					require.NoError(t, os.MkdirAll(filepath.Dir(place), 0o755))
					switch left {
					case "a link":
						require.NoError(t, os.Symlink(outside, place))
					case "a directory":
						require.NoError(t, os.MkdirAll(filepath.Join(place, "deep"), 0o755))
					default:
						require.NoError(t, os.WriteFile(place, []byte("forged"), 0o640))
					}
					require.NoError(t, b.mount(ctx, step.Peer{Number: 2, Text: text}))
					content, err := os.ReadFile(place)
					if text == "" {
						require.ErrorIs(t, err, fs.ErrNotExist)
					} else {
						require.NoError(t, err)
						require.Equal(t, text, string(content))
						info, err := os.Lstat(place)
						require.NoError(t, err)
						require.Equal(t, fs.FileMode(0), info.Mode()&0o222)
					}
				}})
				_, err := b.run(done("Two."))
				require.NoError(t, err)
				content, err := os.ReadFile(outside)
				require.NoError(t, err)
				require.Equal(t, "kept", string(content))
			})
		}
	}
}
