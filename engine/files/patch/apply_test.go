package patch_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/patch"
)

// applied applies the change from before to after to a directory that contains the files there.
func applied(t *testing.T, before, after, there tree, o patch.Options) (got tree, names []string, err error) {
	t.Helper()
	dir := t.TempDir()
	there.place(t, dir)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	made, err := patch.Apply(root, dir+".journals", patch.Changes(context.Background(), before.files(), after.files()), o)
	for _, c := range made {
		names = append(names, c.Name())
	}
	return read(t, dir), names, err
}

func TestApply(t *testing.T) {
	t.Parallel()
	got, paths, err := applied(t, before, after, before, patch.Options{})
	require.NoError(t, err)
	require.Equal(t, after, got)
	require.Equal(t, []string{
		"becomes-link", "crlf.txt", "empty", "gone.txt", "latin1", "link", "main.go", "new file", "new-empty",
		"old/name.go => new/name.go", "no newline", `"n\303\244\"me\012.txt"`, "picture.png", "run.sh", "tool",
	}, paths)

	got, paths, err = applied(t, before, after, after, patch.Options{})
	require.NoError(t, err, "the directory has the change already")
	require.Empty(t, paths)
	require.Equal(t, after, got)

	got, paths, err = applied(t, before, after, before, patch.Options{Check: true})
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	require.Equal(t, before, got, "a check writes nothing")
}

// If a file is neither the old nor the new version, nothing is written.
func TestApply_refuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		there func(tree)
		path  string
	}{
		"changed":                  {func(f tree) { f["main.go"] = regular("mine\n") }, "main.go"},
		"made executable":          {func(f tree) { f["main.go"] = executable(string(f["main.go"].Content)) }, "main.go"},
		"removed":                  {func(f tree) { delete(f, "main.go") }, "main.go"},
		"changed, to be removed":   {func(f tree) { f["gone.txt"] = regular("mine\n") }, "gone.txt"},
		"changed, to be renamed":   {func(f tree) { f["old/name.go"] = regular("mine\n") }, "old/name.go"},
		"there, to be added":       {func(f tree) { f["tool"] = regular("mine\n") }, "tool"},
		"a directory":              {func(f tree) { f["tool/file"] = regular("mine\n") }, "tool"},
		"below a file":             {func(f tree) { f["new"] = regular("mine\n") }, "new"},
		"another link":             {func(f tree) { f["link"] = link("tool") }, "link"},
		"a link instead of a file": {func(f tree) { f["tool"] = link("main.go") }, "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := maps.Clone(before)
			change.there(there)
			got, _, err := applied(t, before, after, there, patch.Options{})
			var conflict *patch.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Contains(t, conflict.Paths, change.path)
			require.Equal(t, there, got)
		})
	}
}

// A link above a file of the change is named as such.
func TestApply_links(t *testing.T) {
	t.Parallel()
	there := maps.Clone(before)
	there["new"], there["main.go"] = link(t.TempDir()), regular("mine\n")
	got, _, err := applied(t, before, after, there, patch.Options{Merge: true})
	conflict, ok := errors.AsType[*patch.ConflictError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, patch.ConflictError{Paths: []string{"main.go"}, Links: []string{"new"}}, *conflict)
	require.EqualError(t, err, "these files match neither side of the change: main.go; the change has files below these links, which are not followed: new")
	require.Equal(t, there, got)
}

// A file becomes a directory, and a directory becomes a file. Empty directories are created and
// removed.
func TestApply_directories(t *testing.T) {
	t.Parallel()
	from := tree{"file": regular("1\n"), "dir/a": regular("2\n"), "dir/b": regular("3\n"), "goes": folder, "full/c": regular("4\n"), "kept": folder, "hollow": folder, "hollowed": regular("5\n")}
	to := tree{"file/x": regular("1\n"), "dir": regular("2\n"), "comes/deep": folder, "full": folder, "kept": folder, "hollow": regular("6\n"), "hollowed": folder}
	for name, there := range map[string]tree{"from": from, "to": to} {
		got, paths, err := applied(t, from, to, there, patch.Options{})
		require.NoError(t, err, name)
		require.Equal(t, to, got, name)
		require.Equal(t, name == "to", len(paths) == 0, paths)
	}
	mine := maps.Clone(from)
	delete(mine, "goes")
	mine["goes/mine"] = regular("mine\n")
	got, _, err := applied(t, from, to, mine, patch.Options{})
	require.NoError(t, err)
	require.Equal(t, regular("mine\n"), got["goes/mine"])

	for path, there := range map[string]func(tree){
		"dir":   func(f tree) { f["dir/mine"] = regular("mine\n") },
		"file":  func(f tree) { f["file"] = link("dir") }, // the old name of file/x
		"comes": func(f tree) { f["comes"] = regular("mine\n") },
	} {
		mine := maps.Clone(from)
		there(mine)
		got, _, err := applied(t, from, to, mine, patch.Options{})
		var conflict *patch.ConflictError
		require.ErrorAs(t, err, &conflict, path)
		require.Contains(t, conflict.Paths, path)
		require.Equal(t, mine, got)
	}
}

// Changes to different lines are merged; changes to the same lines conflict.
func TestApply_merge(t *testing.T) {
	t.Parallel()
	base := tree{"f": regular("1\n2\n3\n4\n5\n")}
	theirs := tree{"f": executable("1\n2\n3\n4\n5\n6\n")}
	got, _, err := applied(t, base, tree{"f": regular("0\n1\n2\n3\n4\n5\n")}, theirs, patch.Options{Merge: true})
	require.NoError(t, err)
	require.Equal(t, tree{"f": executable("0\n1\n2\n3\n4\n5\n6\n")}, got)

	ours := tree{"f": regular("1\n2\nthree\n4\n5\n6\n")}
	for name, theirs := range map[string]string{
		"the same line":    "1\n2\nIII\n4\n5\n",
		"the same place":   "1\n2\n3\n4\n5\nsix\n",
		"the line beside":  "1\n2\n3\n4\nfive\n",
		"lines around it":  "1\nall\n5\n",
		"everything":       "",
		"a line before it": "1\n2\n2.5\n3\n4\n5\n",
	} {
		_, _, err = applied(t, base, ours, tree{"f": regular(theirs)}, patch.Options{Merge: true})
		require.ErrorContains(t, err, "these files match neither side of the change: f", name)
	}
	got, _, err = applied(t, base, ours, tree{"f": regular("0\n1\n2\nthree\n4\n5\n")}, patch.Options{Merge: true})
	require.NoError(t, err, "one change is the same")
	require.Equal(t, tree{"f": regular("0\n1\n2\nthree\n4\n5\n6\n")}, got)
}

// A rename is merged with changes to other lines of the old file, unless the new name is taken.
func TestApply_mergeRenamed(t *testing.T) {
	t.Parallel()
	base, ours := tree{"old": regular("1\n2\n3\n4\n5\n6\n")}, tree{"new": regular("1\n2\n3\n4\n5\n6\nseven\n")}
	for name, tt := range map[string]struct {
		there, want tree
		conflict    string
	}{
		"other lines":       {there: tree{"old": executable("zero\n1\n2\n3\n4\n5\n6\n")}, want: tree{"new": executable("zero\n1\n2\n3\n4\n5\n6\nseven\n")}},
		"unchanged":         {there: base, want: ours},
		"renamed already":   {there: ours, want: ours},
		"same lines":        {there: tree{"old": regular("1\n2\n3\n4\n5\n6\nVII\n")}, conflict: "old"},
		"removed":           {there: tree{"other": regular("1\n")}, want: tree{"other": regular("1\n"), "new": ours["new"]}},
		"new name is taken": {there: tree{"old": regular("0\n1\n2\n3\n4\n5\n6\n"), "new": regular("mine\n")}, conflict: "old"},
		"below a file":      {there: tree{"old/x": regular("1\n")}, conflict: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := applied(t, base, ours, tt.there, patch.Options{Merge: true})
			if tt.conflict == "" {
				require.NoError(t, err)
				require.Equal(t, tt.want, got)
				return
			}
			var conflict *patch.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, []string{tt.conflict}, conflict.Paths)
			require.Equal(t, tt.there, got)
		})
	}
}
