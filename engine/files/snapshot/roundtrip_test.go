package snapshot_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
)

// tree is a directory's files by path. A value is the kind and the content of a file.
type tree map[string]string

// The kinds of entries.
const (
	isRegular  = "-"
	executable = "x"
	link       = "l"
	folder     = "d" // an empty directory
)

func (t tree) place(tb require.TestingT, dir string) {
	for name, entry := range t {
		at := filepath.Join(dir, name)
		require.NoError(tb, os.MkdirAll(filepath.Dir(at), 0o755))
		switch content := entry[1:]; entry[:1] {
		case folder:
			require.NoError(tb, os.Mkdir(at, 0o755))
		case link:
			require.NoError(tb, os.Symlink(content, at))
		case executable:
			require.NoError(tb, os.WriteFile(at, []byte(content), 0o755)) //nolint:gosec // executable
		default:
			require.NoError(tb, os.WriteFile(at, []byte(content), 0o644)) //nolint:gosec // of an agent
		}
	}
}

func treeOf(tb require.TestingT, dir string) tree {
	t := tree{}
	require.NoError(tb, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		require.NoError(tb, err)
		name, _ := filepath.Rel(dir, at)
		switch {
		case d.IsDir():
			entries, err := os.ReadDir(at)
			require.NoError(tb, err)
			if len(entries) == 0 && name != "." {
				t[name] = folder
			}
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(at)
			require.NoError(tb, err)
			t[name] = link + target
		default:
			info, err := d.Info()
			require.NoError(tb, err)
			content, err := os.ReadFile(at)
			require.NoError(tb, err)
			kind := isRegular
			if info.Mode()&0o100 != 0 {
				kind = executable
			}
			t[name] = kind + string(content)
		}
		return nil
	}))
	return t
}

// anyTree draws a tree in which no path is both a file and a directory.
func anyTree(t *rapid.T, label string) tree {
	name := rapid.SampledFrom([]string{"a", "b", "A", "two\nlines", "caf\xe9", "ä ö", "-x", "\"q\\", "base", "context", ".hidden", "long" + strings.Repeat("g", 60)})
	content := rapid.SampledFrom([]string{"", "one\n", "one", "one\ntwo\n", "a\r\nb\r\n", "\x00\x01", "\xff\n", strings.Repeat("line\n", 50), strings.Repeat("\x00big", 90<<10)})
	drawn := tree{}
	for range rapid.IntRange(0, 7).Draw(t, label) {
		at := strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "path"), "/")
		if slices.ContainsFunc(slices.Collect(maps.Keys(drawn)), func(other string) bool {
			return other == at || strings.HasPrefix(other, at+"/") || strings.HasPrefix(at, other+"/")
		}) {
			continue
		}
		kind := rapid.SampledFrom([]string{isRegular, isRegular, executable, link, folder}).Draw(t, "kind")
		switch kind {
		case link: // to a name in its own directory, which may be missing, but is no link
			drawn[at+".link"] = link + name.Draw(t, "target")
		case folder:
			drawn[at] = folder
		default:
			drawn[at] = kind + content.Draw(t, "content")
		}
	}
	return drawn
}

// anyChange draws a tree and another one, in which some of its files have stayed or moved.
func anyChange(t *rapid.T) (from, to tree) {
	from, to = anyTree(t, "base"), anyTree(t, "answer")
	for name, entry := range from {
		switch rapid.IntRange(0, 3).Draw(t, "what happens") {
		case 0:
			to[name] = entry
		case 1:
			to[name+".moved"] = entry
		}
	}
	return from, withoutClashes(to)
}

// applied applies the change that was stored with the given hash to a directory, which has the
// base, and returns it.
func applied(ctx context.Context, t require.TestingT, store artifact.Store, layout artifact.Layout, hash, dir string) []patch.Change {
	change, err := artifact.LoadChange(ctx, store, layout, hash)
	require.NoError(t, err)
	changes, err := snapshot.Changes(ctx, store, layout, change)
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = patch.Apply(root, dir+".journals", changes, patch.Options{})
	require.NoError(t, err)
	return changes
}

// Any tree is unchanged on its way from base through step to apply. Through diff and git only empty
// directories are lost.
func TestRoundTrip_anyTrees(t *testing.T) {
	t.Parallel()
	home, store, runs := t.TempDir(), openStore(t), 0
	rapid.Check(t, func(t *rapid.T) {
		if runs == 30 { // each writes a store
			return
		}
		from, to := anyChange(t)
		runs++
		dir := func(name string) string { return filepath.Join(home, fmt.Sprint(runs), name) }
		for _, name := range []string{"base", "answer", "git"} {
			require.NoError(t, os.MkdirAll(dir(name), 0o755))
		}
		from.place(t, dir("base"))
		from.files().place(t, dir("git")) // git knows no empty directories
		up, err := snapshot.Upload{Store: store, Dir: dir("base"), Now: time.Now}.Run(t.Context())
		require.NoError(t, err)
		require.Empty(t, up.LeftOut)
		b, err := snapshot.Open(t.Context(), store, up.Hash)
		require.NoError(t, err)
		require.NoError(t, snapshot.NewTrees(store, "", 0).Place(t.Context(), b, dir("step")))
		require.Equal(t, from, treeOf(t, dir("step")))

		to.place(t, dir("answer"))
		layout := artifact.InBucket(fmt.Sprint(runs)).On(b)
		_, hash, err := artifact.OpenWorkingCopy(store, layout, dir("answer"), home).Seal(t.Context())
		require.NoError(t, err)
		changes := applied(t.Context(), t, store, layout, hash, dir("base"))
		require.Equal(t, to, treeOf(t, dir("base")))
		if len(patch.OfFiles(changes)) > 0 {
			gitApply(t, dir("git"), changes)
		}
		require.Equal(t, to.files(), treeOf(t, dir("git")).files())
	})
}

// withoutClashes removes paths that are below a file.
func withoutClashes(t tree) tree {
	kept := tree{}
	for name, entry := range t {
		above := false
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			_, file := t[dir]
			above = above || file
		}
		if !above {
			kept[name] = entry
		}
	}
	return kept
}

func (t tree) files() tree {
	files := maps.Clone(t)
	maps.DeleteFunc(files, func(_, entry string) bool { return entry == folder })
	return files
}

func gitApply(t require.TestingT, dir string, changes []patch.Change) {
	var p bytes.Buffer
	require.NoError(t, patch.Write(&p, changes, patch.Style{}))
	cmd := exec.Command("git", "apply", "--whitespace=nowarn")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(p.Bytes())
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, p.String())
}
