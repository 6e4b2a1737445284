package artifact_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
)

// tree reads a workspace from words such as a=1, dir/ (an empty directory), run.sh=1+x (another mode) and l->a (a link).
func tree(words string) artifact.Manifest {
	var m artifact.Manifest
	for _, word := range strings.Fields(words) {
		f := artifact.File{Mode: 0o644}
		name, content, _ := strings.Cut(word, "=")
		target, isLink := "", false
		if name, target, isLink = strings.Cut(name, "->"); isLink {
			f.Link, f.Mode = target, 0o777
		}
		if strings.HasSuffix(name, "/") {
			f.Dir, f.Mode, name = true, 0o755, strings.TrimSuffix(name, "/")
		}
		if strings.HasSuffix(content, "+x") {
			f.Mode |= 0o111
		}
		f.Path = name
		if !isLink && !f.Dir {
			f.SHA256, f.Size = artifact.SumOf([]byte(strings.TrimSuffix(content, "+x"))), int64(len(content))
		}
		m.Files = append(m.Files, f)
	}
	slices.SortFunc(m.Files, func(a, b artifact.File) int { return strings.Compare(a.Path, b.Path) })
	return m
}

func TestMergeSides(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ fork, a, b, merged, conflicts, sides string }{
		"nobody changed a thing":          {fork: "x=1", a: "x=1", b: "x=1", merged: "x=1"},
		"one changed it":                  {fork: "x=1 y=1", a: "x=2 y=1", b: "x=1 y=3", merged: "x=2 y=3"},
		"both alike":                      {fork: "x=1", a: "x=2 n=1", b: "x=2 n=1", merged: "x=2 n=1"},
		"both deleted it":                 {fork: "x=1 y=1", a: "y=1", b: "y=1", merged: "y=1"},
		"one deleted it":                  {fork: "x=1", a: "", b: "x=1", merged: ""},
		"changed differently":             {fork: "x=1 y=1", a: "x=2 y=2", b: "x=3 y=1", merged: "x=1 y=2", conflicts: "x", sides: "a/x=2 b/x=3"},
		"deleted and changed":             {fork: "x=1", a: "", b: "x=2", merged: "x=1", conflicts: "x", sides: "b/x=2"},
		"both added":                      {fork: "", a: "x=1", b: "x=2", merged: "", conflicts: "x", sides: "a/x=1 b/x=2"},
		"modes":                           {fork: "x=1", a: "x=1+x", b: "x=2", merged: "x=1", conflicts: "x", sides: "a/x=1+x b/x=2"},
		"links":                           {fork: "l->x x=1", a: "l->y x=1", b: "l->z x=1", merged: "l->x x=1", conflicts: "l", sides: "a/l->y b/l->z"},
		"file against directory":          {fork: "", a: "x=1", b: "x/a=1 x/b=1", merged: "", conflicts: "x x/a x/b", sides: "a/x=1 b/x/a=1 b/x/b=1"},
		"file into a directory of theirs": {fork: "x=1 y=1", a: "x/a=1 y=1", b: "x=1 y=2", merged: "x/a=1 y=2"},
		"changed file against directory":  {fork: "x=1", a: "x/a=1", b: "x=2", merged: "x=1", conflicts: "x x/a", sides: "a/x/a=1 b/x=2"},
		"an empty directory filled":       {fork: "", a: "d/", b: "d/x=1", merged: "d/x=1"},
		"an empty directory of the fork":  {fork: "d/", a: "d/x=1", b: "d/y=1", merged: "d/x=1 d/y=1"},
		"a file for an empty directory":   {fork: "d/", a: "d=1", b: "d/x=1", merged: "d/x=1", conflicts: "d", sides: "a/d=1"},
		"sides of an earlier conflict":    {fork: "x=1 .conclave/branches/a/x=9", a: "x=1 .conclave/branches/a/x=9", b: "x=2", merged: "x=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged, conflicts := artifact.MergeSides(tree(tt.fork), []artifact.Side{{Name: "a", Files: tree(tt.a)}, {Name: "b", Files: tree(tt.b)}})
			want := tree(tt.merged)
			for _, f := range tree(tt.sides).Files {
				f.Path = path.Join(artifact.BranchesDir, f.Path)
				if f.Link == "" {
					f.Mode &^= 0o222
				}
				want.Files = append(want.Files, f)
			}
			slices.SortFunc(want.Files, func(a, b artifact.File) int { return strings.Compare(a.Path, b.Path) })
			require.Equal(t, want.Files, merged.Files)
			require.Equal(t, strings.Fields(tt.conflicts), append([]string{}, conflicts...))
		})
	}
}

// A merge is a tree, does not depend on the order of the branches, and loses no change: each is in the result or a
// side of a conflict.
func TestMergeSides_losesNothing(t *testing.T) {
	t.Parallel()
	drawn := rapid.Custom(func(t *rapid.T) artifact.Manifest {
		var words []string
		taken := map[string]bool{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a/d", "e", "f/g"}), 0, 5, rapid.ID).Draw(t, "paths") {
			free := true
			for other := range taken {
				free = free && !strings.HasPrefix(name, other+"/") && !strings.HasPrefix(other, name+"/")
			}
			if free {
				taken[name] = true
				words = append(words, fmt.Sprintf("%s=%d", name, rapid.IntRange(1, 2).Draw(t, "content")))
			}
		}
		return tree(strings.Join(words, " "))
	})
	rapid.Check(t, func(t *rapid.T) {
		fork := drawn.Draw(t, "fork")
		sides := []artifact.Side{{Name: "a", Files: drawn.Draw(t, "a")}, {Name: "b", Files: drawn.Draw(t, "b")}, {Name: "c", Files: drawn.Draw(t, "c")}}
		merged, conflicts := artifact.MergeSides(fork, sides)
		require.NoError(t, merged.Check())
		for _, f := range merged.Files {
			for _, other := range merged.Files {
				require.False(t, strings.HasPrefix(other.Path, f.Path+"/"), "%s is below the file %s", other.Path, f.Path)
			}
		}
		slices.Reverse(sides)
		again, same := artifact.MergeSides(fork, sides)
		require.Equal(t, merged, again)
		require.Equal(t, conflicts, same)
		for _, side := range sides {
			for _, f := range side.Files.Files {
				if slices.Contains(fork.Files, f) || slices.Contains(merged.Files, f) {
					continue
				}
				f.Path, f.Mode = path.Join(artifact.BranchesDir, side.Name, f.Path), f.Mode&^0o222
				require.Contains(t, merged.Files, f)
			}
		}
	})
}
