package artifact_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
)

func TestFile_JSON(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]artifact.File{
		`{"path":"a<b>.go","mode":420,"size":1,"sha256":"` + sumOfX + `"}`: {Path: "a<b>.go", Mode: 0o644, Size: 1, SHA256: sumOfX},
		`{"path":"link","mode":511,"size":0,"link":"a b"}`:                 {Path: "link", Mode: 0o777, Link: "a b"},
		`{"path":"empty","type":"dir","mode":493,"size":0}`:                {Path: "empty", Dir: true, Mode: 0o755},
		`{"path_base64":"bGF0aW7p","mode":493,"size":0,"link_base64":"6Q=="}`: {
			Path: "latin\xe9", Mode: 0o755, Link: "\xe9",
		},
	} {
		data, err := f.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		var back artifact.File
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, f, back)
	}
	var f artifact.File
	require.ErrorContains(t, json.Unmarshal([]byte(`{"path":"x","type":"socket"}`), &f), "socket")
}

func TestDelta_JSON(t *testing.T) {
	t.Parallel()
	d := artifact.Delta{Removed: []string{"a", "latin\xe9", "z"}}
	data, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(t, `{"removed":["a",{"path_base64":"bGF0aW7p"},"z"]}`, string(data))
	var back artifact.Delta
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, d, back)
}

// trees generates manifests from few names, so that two of them overlap.
var trees = rapid.Custom(func(t *rapid.T) artifact.Manifest {
	files := map[string]artifact.File{}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c/d", "c/e", "c-", "f\xff", "g\nh"}), 0, 7).Draw(t, "names") {
		f := artifact.File{Path: name, Mode: 0o644, Size: 1, SHA256: fmt.Sprintf("%064x", rapid.IntRange(0, 2).Draw(t, "content"))}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			f = artifact.File{Path: name, Mode: 0o777, Link: "target"}
		case 1:
			f = artifact.File{Path: name, Mode: 0o755, Dir: true}
		case 2:
			f.Mode = 0o755
		}
		files[name] = f
	}
	m := artifact.Manifest{Files: []artifact.File{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.Files = append(m.Files, files[name])
	}
	return m
})

// Applying a change to its base yields the tree, the change is minimal, and it survives JSON.
func TestChange_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		old, tree := trees.Draw(t, "base"), trees.Draw(t, "tree")
		base, err := artifact.NewBase(sumOfX, old, nil)
		require.NoError(t, err)
		c := tree.Since(base)
		require.NoError(t, c.Check(base))
		require.Equal(t, tree, c.Tree(base))
		require.Equal(t, c.Empty(), slices.Equal(old.Files, tree.Files))
		for _, f := range c.Files {
			require.NotContains(t, old.Files, f)
		}
		data, err := artifact.EncodeJSON(c)
		require.NoError(t, err)
		var back artifact.Change
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, c.Tree(base), back.Tree(base))

		d := c.Delta().Change(base)
		require.Equal(t, c.Tree(base), d.Tree(base), "a delta of the base's files is the same change")
		hash, err := c.Hash()
		require.NoError(t, err)
		again, err := d.Hash()
		require.NoError(t, err)
		require.Equal(t, hash, again)
	})
}

func TestChange_Check(t *testing.T) {
	t.Parallel()
	file := artifact.File{Path: "a", Mode: 0o644, Size: 1, SHA256: sumOfX}
	base, err := artifact.NewBase(sumOfX, artifact.Manifest{Files: []artifact.File{file}}, nil)
	require.NoError(t, err)
	for name, c := range map[string]artifact.Change{
		"another base":      {Base: "other"},
		"unknown removal":   {Base: sumOfX, Removed: []string{"b"}},
		"removed twice":     {Base: sumOfX, Removed: []string{"a", "a"}},
		"removed and there": {Base: sumOfX, Files: []artifact.File{{Path: "a", Link: "x"}}, Removed: []string{"a"}},
		"bad file":          {Base: sumOfX, Files: []artifact.File{{Path: "../a"}}},
	} {
		require.Error(t, c.Check(base), name)
	}
	require.NoError(t, artifact.Change{Base: sumOfX, Removed: []string{"a"}}.Check(base))
	require.Error(t, artifact.Change{Base: sumOfX}.Check(nil), "a session without a base")
}

// Checks and memory are for agents only, and are left out. If the base has a directory with such a
// name, its changes are kept.
func TestChange_Deliverable(t *testing.T) {
	t.Parallel()
	file := func(name string) artifact.File {
		return artifact.File{Path: name, Mode: 0o644, Size: 1, SHA256: sumOfX}
	}
	c := artifact.Change{Files: []artifact.File{
		file(".Conclave/CHECKS/b.sh"), file(".conclave/checks /c.sh"), file(".conclave\u200d/checks/d.sh"),
		file(".conclave/checks/a.sh"), file(".conclave/notes"),
		{Path: ".conclave", Dir: true},
		file(".conclave.yaml"), file("main.go"),
		file("memory/long_term/a.md"), file("memory/short_term/verification_latest.md"), file("memory/store.go"), file("memory/short_term.go"),
	}, Removed: []string{".conclave/checks/old.sh", "memory/short_term/old.md", "old.go"}}
	paths := func(c artifact.Change) (paths []string) {
		for _, f := range c.Files {
			paths = append(paths, f.Path)
		}
		return append(paths, c.Removed...)
	}
	require.Equal(t, []string{".conclave.yaml", "main.go", "memory/store.go", "memory/short_term.go", "old.go"}, paths(c.Deliverable(nil)))

	base, err := artifact.NewBase(sumOfX, artifact.Manifest{Files: []artifact.File{file(".conclave/checks/old.sh"), file("memory/short_term/old.md")}}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		".conclave/notes", ".conclave", ".conclave.yaml", "main.go", "memory/short_term/verification_latest.md", "memory/store.go", "memory/short_term.go",
		"memory/short_term/old.md", "old.go",
	}, paths(c.Deliverable(base)))
}
