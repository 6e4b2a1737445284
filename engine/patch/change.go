package patch

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // git names objects by it
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Mode is a file's type and permission as git writes them.
type Mode string

// The modes of git's trees.
const (
	Regular    Mode = "100644"
	Executable Mode = "100755"
	Link       Mode = "120000"

	// Dir is an empty directory. Neither git nor its patches have them.
	Dir Mode = "040000"
)

// File is a file of a tree. The content of a link is its target.
type File struct {
	Path    string // slash-separated relative path
	Mode    Mode
	Content []byte
}

// Change is a changed file. Without Old the file was added, without New it was deleted,
// and with different paths it was renamed.
type Change struct {
	Old, New   *File
	Similarity int // percent of the content that a renamed file kept; 0 for other files
}

// Path returns the file's path: the new one if it was renamed.
func (c Change) Path() string {
	if c.New != nil {
		return c.New.Path
	}
	return c.Old.Path
}

func (c Change) isDir() bool {
	return (c.Old == nil || c.Old.Mode == Dir) && (c.New == nil || c.New.Mode == Dir)
}

// becomesDir reports whether a file becomes an empty directory, or an empty directory a file.
func (c Change) becomesDir() bool {
	return c.Old != nil && c.New != nil && (c.Old.Mode == Dir) != (c.New.Mode == Dir)
}

// OfFiles returns the changes without those of empty directories.
func OfFiles(changes []Change) []Change {
	var files []Change
	for _, c := range changes {
		switch {
		case c.isDir():
		case c.Old != nil && c.Old.Mode == Dir:
			files = append(files, Change{New: c.New})
		case c.New != nil && c.New.Mode == Dir:
			files = append(files, Change{Old: c.Old})
		default:
			files = append(files, c)
		}
	}
	return files
}

// Changes returns the changes from the old to the new files, sorted by path. Equal files
// are left out.
func Changes(old, current []File) []Change {
	before := make(map[string]*File, len(old))
	for i := range old {
		before[old[i].Path] = &old[i]
	}
	var changes []Change
	var added []*File
	for i := range current {
		f := &current[i]
		was := before[f.Path]
		switch {
		case was == nil:
			added = append(added, f)
			continue
		case was.Mode != f.Mode || !bytes.Equal(was.Content, f.Content):
			changes = append(changes, Change{Old: was, New: f})
		}
		delete(before, f.Path)
	}
	var deleted []*File
	for i := range old {
		if before[old[i].Path] != nil {
			deleted = append(deleted, &old[i])
		}
	}
	changes = append(changes, pair(deleted, added)...)
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path(), b.Path()) })
	return changes
}

// The bounds of the search for renames, equal to git's.
const (
	minSimilarity = 50      // similarity in percent
	maxPairs      = 400_000 // most pairs of deleted and added files whose contents are compared
)

// pair returns the deleted and added files as changes. Similar files become renames, the most
// similar first.
func pair(deleted, added []*File) []Change {
	var candidates []Change
	if len(deleted)*len(added) <= maxPairs {
		lines := make(map[*File]map[string]int)
		for _, old := range deleted {
			for _, f := range added {
				if s := similarity(old, f, lines); s >= minSimilarity {
					candidates = append(candidates, Change{Old: old, New: f, Similarity: s})
				}
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b Change) int { return cmp.Compare(b.Similarity, a.Similarity) })
	used := make(map[*File]bool)
	var changes []Change
	for _, c := range candidates {
		if !used[c.Old] && !used[c.New] {
			used[c.Old], used[c.New] = true, true
			changes = append(changes, c)
		}
	}
	for _, f := range deleted {
		if !used[f] {
			changes = append(changes, Change{Old: f})
		}
	}
	for _, f := range added {
		if !used[f] {
			changes = append(changes, Change{New: f})
		}
	}
	return changes
}

// similarity returns the percentage of the larger file's bytes in lines that both files have.
// It is 100 only for equal contents. Links and binary files are similar only to equal ones;
// empty files are similar to none.
func similarity(a, b *File, lines map[*File]map[string]int) int {
	switch most := max(len(a.Content), len(b.Content)); {
	case len(a.Content) == 0 || len(b.Content) == 0 || (a.Mode == Link) != (b.Mode == Link):
		return 0
	case bytes.Equal(a.Content, b.Content):
		return 100
	case a.Mode == Link || isBinary(a.Content) || isBinary(b.Content),
		min(len(a.Content), len(b.Content))*100/most < minSimilarity:
		return 0
	default:
		common := 0
		counts := countLines(b, lines)
		for line, n := range countLines(a, lines) {
			common += min(n, counts[line]) * len(line)
		}
		return min(99, common*100/most)
	}
}

// countLines returns how often each line occurs in a file. It caches the counts.
func countLines(f *File, cache map[*File]map[string]int) map[string]int {
	if counts, ok := cache[f]; ok {
		return counts
	}
	counts := make(map[string]int)
	for line := range bytes.Lines(f.Content) {
		counts[string(line)]++
	}
	cache[f] = counts
	return counts
}

// isBinary reports whether git would call the content binary: its first 8,000 bytes have a
// zero.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0
}

// object returns the name of the git object with the file's content, or zeros without a
// file.
func object(f *File) string {
	if f == nil {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // git names objects by it
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return hex.EncodeToString(h.Sum(nil))
}
