package artifact

import (
	"context"
	"path"
	"slices"
	"strings"
)

// BranchesDir is the directory of a workspace with the sides of a conflict: <name>/… has those files of a branch
// that others changed differently, read-only. It is in no diff.
const BranchesDir = ".conclave/branches"

// Side is the workspace of a branch.
type Side struct {
	Name  string
	Files Manifest
}

// MergeSides merges the workspaces of branches that began with the files of their fork. A file that one branch
// changed is taken from it, and one that several changed alike is taken once. A path that they changed differently,
// or that is a file for one and a directory for another, is a conflict: it stays as it was at the fork, and each side
// that has it is put into BranchesDir. The conflicts are sorted.
func MergeSides(fork Manifest, sides []Side) (merged Manifest, conflicts []string) {
	fork = withoutSides(fork)
	before := entriesOf(fork)
	trees := make([]map[string]File, len(sides))
	all := entriesOf(fork)
	for i, side := range sides {
		trees[i] = entriesOf(withoutSides(side.Files))
		for name, f := range trees[i] {
			all[name] = f
		}
	}
	result, disputed := map[string]File{}, map[string]bool{}
	for name := range all {
		old, existed := before[name]
		chosen, exists, agreed := mergeEntry(old, existed, name, trees)
		if disputed[name] = !agreed; !agreed {
			chosen, exists = old, existed
		}
		if exists {
			result[name] = chosen
		}
	}
	settleDirectories(result, before, disputed)
	for name, conflict := range disputed {
		if conflict {
			conflicts = append(conflicts, name)
		}
	}
	slices.Sort(conflicts)
	for _, f := range result {
		merged.Files = append(merged.Files, f)
	}
	merged.Files = append(merged.Files, conflictSides(before, conflicts, sides, trees)...)
	slices.SortFunc(merged.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return merged, conflicts
}

func entriesOf(m Manifest) map[string]File {
	files := make(map[string]File, len(m.Files))
	for _, f := range m.Files {
		files[f.Path] = f
	}
	return files
}

// withoutSides leaves out the sides of an earlier conflict.
func withoutSides(m Manifest) Manifest {
	return Manifest{Files: slices.DeleteFunc(slices.Clone(m.Files), func(f File) bool { return strings.HasPrefix(f.Path, BranchesDir+"/") })}
}

// mergeEntry merges one path. agreed is false if two branches changed it differently.
func mergeEntry(old File, existed bool, name string, trees []map[string]File) (chosen File, exists, agreed bool) {
	chosen, exists = old, existed
	changed := false
	for _, tree := range trees {
		f, there := tree[name]
		switch {
		case there == existed && f == old:
		case !changed:
			chosen, exists, changed = f, there, true
		case there != exists || f != chosen:
			return old, existed, false
		}
	}
	return chosen, exists, true
}

// settleDirectories makes a tree of the merged entries. An empty directory into which another branch put a file goes;
// a file below which another branch put files is a conflict of them all.
func settleDirectories(result, before map[string]File, disputed map[string]bool) {
	for {
		clashing := map[string]bool{} // of one moment, so that the order of the paths does not matter
		for name := range result {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if parent, is := result[dir]; is {
					clashing[dir] = true
					clashing[name] = clashing[name] || !parent.Dir
				}
			}
		}
		if len(clashing) == 0 {
			return
		}
		for name, clashes := range clashing {
			now := result[name]
			if now.Dir && clashes {
				delete(result, name)
				continue
			}
			if !clashes {
				continue
			}
			old, existed := before[name]
			disputed[name] = disputed[name] || !existed || now != old
			if delete(result, name); existed {
				result[name] = old
			}
		}
	}
}

// conflictSides returns the files of the branches that changed a disputed path, in BranchesDir.
func conflictSides(before map[string]File, conflicts []string, sides []Side, trees []map[string]File) (files []File) {
	for i, side := range sides {
		for _, name := range conflicts {
			old, existed := before[name]
			f, there := trees[i][name]
			if !there || existed && f == old {
				continue
			}
			f.Path = path.Join(BranchesDir, side.Name, name)
			if f.isRegular() {
				f.Mode &^= 0o222
			}
			files = append(files, f)
		}
	}
	return files
}

// Store stores the manifest as a change of the layout's base and returns its hash.
func (m Manifest) Store(ctx context.Context, store Store, layout Layout) (string, error) {
	c := m.Since(layout.base)
	if err := c.Check(layout.base); err != nil {
		return "", err
	}
	return c.storeBlob(ctx, store, layout)
}
