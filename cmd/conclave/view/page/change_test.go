package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
)

// patchOf returns the patch that conclave writes for changes.
func patchOf(t *testing.T, changes ...patch.Change) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, patch.Write(&b, changes, patch.Style{}))
	return b.String()
}

func fileAt(path, content string) *patch.File {
	return &patch.File{Path: path, Mode: patch.Regular, Content: []byte(content)}
}

// The change has the lines of each file with their numbers, and the same statistics as `conclave diff`.
func TestChangeOf(t *testing.T) {
	t.Parallel()
	script := fileAt("run.sh", "true\n")
	script.Mode = patch.Executable
	changes := []patch.Change{
		{Old: fileAt("a b/ü.go", "one\ntwo\nthree\n"), New: fileAt("a b/ü.go", "one\n2\nthree\nfour\n")},
		{Old: fileAt("gone.txt", "x\n")},
		{New: fileAt("new <b>.txt", "<i>\n-- a dash\n")},
		{Old: fileAt("old.md", strings.Repeat("a line\n", 9)), New: fileAt("moved.md", strings.Repeat("a line\n", 9)), Similarity: 100},
		{Old: fileAt("run.sh", "true\n"), New: script},
		{Old: fileAt("end", "a"), New: fileAt("end", "b")},
		{New: fileAt("image", "\x00\x01")},
	}
	c := changeOf(patchOf(t, changes...), maxLive)
	var told []string
	for _, f := range c.Files {
		told = append(told, fmt.Sprintf("%s (%s) +%d -%d", f.Path, f.Note, f.Added, f.Deleted))
	}
	require.Equal(t, []string{
		"a b/ü.go () +2 -1", "gone.txt (deleted) +0 -1", "new <b>.txt (new) +2 -0", "moved.md (renamed from old.md) +0 -0", "run.sh (made executable) +0 -0",
		"end () +1 -1", "image (new, binary) +0 -0",
	}, told)
	stats := patch.Stats(changes)
	require.Len(t, stats, len(c.Files))
	for i, s := range stats {
		require.Equal(t, [2]int{s.Added, s.Deleted}, [2]int{c.Files[i].Added, c.Files[i].Deleted}, s.Path)
	}
	require.Equal(t, []patchLine{
		{Kind: "at", Text: "@@ -1,3 +1,4 @@"}, {"same", " ", "1", "one"}, {"del", "−", "2", "two"}, {"add", "+", "2", "2"}, {"same", " ", "3", "three"}, {"add", "+", "4", "four"},
	}, c.Files[0].Lines)
	require.Equal(t, patchLine{"add", "+", "2", "-- a dash"}, c.Files[2].Lines[2], "a line that looks like a header")
	require.Contains(t, c.Files[5].Lines, patchLine{Kind: "at", Sign: " ", Text: "no newline at the end"})
	require.Equal(t, [2]int{5, 3}, [2]int{c.Added, c.Deleted})
	require.Equal(t, [2]string{"66.667%", "33.333%"}, c.Files[0].Spread())
	require.Nil(t, changeOf("", maxLive))
}

// Beyond its room the page names the files, and says how many are without lines.
func TestChangeOf_large(t *testing.T) {
	t.Parallel()
	var changes []patch.Change
	for i := range 30 {
		changes = append(changes, patch.Change{New: fileAt(fmt.Sprintf("%02d.txt", i), strings.Repeat("a line\n", 100))})
	}
	c := changeOf(patchOf(t, changes...), 1000)
	require.Len(t, c.Files, 30)
	require.Equal(t, 27, c.More)
	require.Equal(t, 3000, c.Added)
	require.True(t, c.Files[0].Open)
	require.False(t, c.Files[29].Open)
	require.True(t, c.Files[29].Hidden)
}

// based is a session on a base, whose final answer changed a file.
func based(t *testing.T, change string) *stage.Play {
	t.Helper()
	p := stage.ThreeRounds(t)
	s, err := artifact.ReadJSON[artifact.Session](t.Context(), p.Store, "session.json")
	require.NoError(t, err)
	s.Base = "sha256:" + strings.Repeat("0", 64)
	require.NoError(t, artifact.PutJSON(t.Context(), p.Store, "session.json", s))
	require.NoError(t, p.Store.Put(t.Context(), "final/agent_c/change.patch", strings.NewReader(change)))
	return p
}

// The page of a session with files begins with what changed, and escapes it. Its comparison does not say that
// an answer added a file of the base.
func TestWrite_change(t *testing.T) {
	t.Parallel()
	html := drawn(t, based(t, patchOf(t, patch.Change{Old: fileAt("<b>.sql", "a\n"), New: fileAt("<b>.sql", "a\n<script>alert(1)</script>\n")})))
	require.Contains(t, html, `1 file changed <span class="added">+1</span> <span class="removed">−0</span>`)
	require.Contains(t, html, `<code>&lt;b&gt;.sql</code>`)
	require.Contains(t, html, `<span class="add" data-n="2">&#43;&lt;script&gt;alert(1)&lt;/script&gt;`)
	require.NotContains(t, html, "<script>alert")
	require.Contains(t, html, `<code id="command-0">conclave apply `)
	require.Contains(t, html, `<form class="pick" data-compare data-based>`)
	require.Less(t, strings.Index(html, `id="change"`), strings.Index(html, `id="story"`))
	require.NotContains(t, html, `method="post"`, "a page on disk changes nothing")
}

// Only the reader whose machine has the directory of the base is offered to apply the change that is shown.
func TestDraw_apply(t *testing.T) {
	t.Parallel()
	change := patchOf(t, patch.Change{New: fileAt("a.txt", "a\n")})
	s := sessionOf(t, based(t, change))
	page := func(l Live) string {
		l.Base = "/sessions/s1"
		html, err := Draw(t.Context(), s, l, stage.Began, NewCanvas()).Page("", "", false)
		require.NoError(t, err)
		return string(html)
	}
	offered := page(Live{Token: "t", Target: "/home/ann/shop"})
	require.Contains(t, offered, `action="/sessions/s1/apply"`)
	require.Contains(t, offered, `name="change" value="`+HashOfPatch(change)+`"`)
	require.Contains(t, offered, "The change above is made in /home/ann/shop")
	for name, l := range map[string]Live{"read-only": {Target: "/home/ann/shop"}, "another machine": {Token: "t"}} {
		require.NotContains(t, page(l), `/apply"`, name)
	}
}
