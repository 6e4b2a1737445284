package patch

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts returns n files with as many lines each; changed is in the place of the middle one.
func texts(n, lines int, name, line, changed string) (files []File) {
	for i := range n {
		var b strings.Builder
		for l := range lines {
			if changed != "" && l == lines/2 {
				fmt.Fprintf(&b, "%s %d\n", changed, i)
				continue
			}
			fmt.Fprintf(&b, line+"\n", i, l)
		}
		files = append(files, File{Path: fmt.Sprintf(name, i), Mode: Regular, Content: []byte(b.String())})
	}
	return files
}

// pointers returns the files as pair takes them.
func pointers(files []File) (list []*File) {
	for i := range files {
		list = append(list, &files[i])
	}
	return list
}

func renamed(changes []Change) (n int) {
	for _, c := range changes {
		if c.Old != nil && c.New != nil {
			n++
		}
	}
	return n
}

// A renamed package costs a comparison for each file, and whatever the files are, the comparisons
// have a budget.
func TestChanges_manyRenames(t *testing.T) {
	t.Parallel()
	const own, common = "file %d line %d", "every file has%.0d line %d"
	for name, tt := range map[string]struct {
		line, to string
		most     int // pairs, and lines that comparisons visit
	}{
		"a directory":              {own, "new/f%03d.go", 300*300 + 300*2*200},
		"a directory, files alike": {common, "new/f%03d.go", 300*300 + 300*2*200},
		"every file":               {own, "old/g%03d.go", maxLines},
		"every file, files alike":  {common, "old/g%03d.go", maxLines},
		"every file has one name":  {own, "new/%03d/index.go", maxLines},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := texts(300, 200, "old/f%03d.go", tt.line, "")
			after := texts(300, 200, tt.to, tt.line, "changed")
			changes := Changes(t.Context(), before, after)
			require.Len(t, changes, 300)
			require.Equal(t, 300, renamed(changes))
			for _, c := range changes {
				require.Greater(t, c.Similarity, 90)
			}
			r := newRenames()
			r.findSimilar(t.Context(), pointers(before), pointers(after))
			require.LessOrEqual(t, maxLines-r.left, tt.most)
		})
	}
}

// Files that keep their content are no candidates for other comparisons, and keep their names
// where they can.
func TestChanges_equalFilesFirst(t *testing.T) {
	t.Parallel()
	before := append(texts(2000, 3, "old/f%04d", "file %d line %d", ""), File{Path: "a/same", Mode: Regular, Content: []byte("1\n")}, File{Path: "a/other", Mode: Regular, Content: []byte("1\n")})
	after := append(texts(2000, 3, "new/g%04d", "file %d line %d", ""), File{Path: "b/other", Mode: Executable, Content: []byte("1\n")}, File{Path: "b/same", Mode: Regular, Content: []byte("1\n")})
	changes := Changes(t.Context(), before, after)
	require.Equal(t, 2002, renamed(changes), "four million pairs")
	for _, c := range changes {
		require.Equal(t, 100, c.Similarity)
	}
	require.Equal(t, "a/other", changes[0].Old.Path)
	require.Equal(t, "b/other", changes[0].New.Path)
}

// Without a budget, or after the end of the context, similar files are deleted and added.
func TestRenames_bounded(t *testing.T) {
	t.Parallel()
	before, after := texts(20, 50, "old/f%d", "file %d line %d", ""), texts(20, 50, "new/g%d", "file %d line %d", "changed")
	after[0].Content = before[0].Content
	ended, end := context.WithCancel(t.Context())
	end()
	changes := Changes(ended, before, after)
	require.Equal(t, 1, renamed(changes))
	require.Len(t, changes, 39)

	r := newRenames()
	r.left = 0
	r.findSimilar(t.Context(), pointers(before), pointers(after))
	require.Empty(t, r.found)
}

// Above the bound of pairs only files of one base name are compared.
func TestCandidates_many(t *testing.T) {
	t.Parallel()
	before, after := texts(1000, 1, "old/f%d", "%d %d", ""), texts(1000, 1, "new/f%d", "%d %d", "")
	require.Len(t, newRenames().listCandidates(pointers(before), pointers(after)), 1000)
	before, after = texts(1000, 1, "old/%d/index", "%d %d", ""), texts(1000, 1, "new/%d/index", "%d %d", "")
	require.Len(t, newRenames().listCandidates(pointers(before), pointers(after)), maxPairs)
	require.Len(t, newRenames().listCandidates(pointers(before[:9]), pointers(after[:9])), 81)
}

// Files of one base name are paired by their directories, however many there are.
func TestChanges_sameBaseNames(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"old/f%04d.go": "new/f%04d.go", "old/%04d/doc.go": "new/%04d/doc.go"} {
		n := 3000
		if strings.HasSuffix(from, "doc.go") {
			n = 600
		}
		before := texts(n, 20, from, "every file has%.0d line %d", "")
		for i := range before {
			before[i].Content = fmt.Appendf(before[i].Content, "this is %d\n", i)
		}
		after := texts(n, 20, to, "every file has%.0d line %d", "changed")
		for i := range after {
			after[i].Content = fmt.Appendf(after[i].Content, "this is %d\n", i)
		}
		changes := Changes(t.Context(), before, after)
		require.Equal(t, n, renamed(changes), to)
		for _, c := range changes {
			require.Equal(t, strings.Replace(c.Old.Path, "old", "new", 1), c.New.Path)
		}
	}
}
