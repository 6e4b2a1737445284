package page

import (
	"context"
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

func TestBrief(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"exactly ten", 11, "exactly ten"},
		{"a longer text", 8, "a longe…"},
		{"a text with\nline ends", 40, "a text with line ends"},
		{"trailing space", 10, "trailing…"},
		{"übergröße", 4, "übe…"},
		{"", 4, ""},
	} {
		require.Equal(t, c.want, briefLine(c.text, c.n), "%q, %d", c.text, c.n)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0.0 s", 1500 * time.Millisecond: "1.5 s", 12 * time.Second: "12 s", 99 * time.Second: "99 s",
		100 * time.Second: "1:40", 2*time.Hour + time.Second: "2:00:01",
	} {
		require.Equal(t, want, formatDuration(d), d)
	}
}

func TestMoney(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	for want, u := range map[string]llm.Usage{
		"–":             {},
		"price unknown": {ModelCalls: 1},
		"$0":            {ModelCalls: 1, TotalUSD: usd(0)},
		"$0.0123":       {ModelCalls: 1, TotalUSD: usd(0.01234)},
		"≥ $0.5000":     {ModelCalls: 2, KnownUSD: 0.5},
	} {
		require.Equal(t, want, formatPrice(u))
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	require.Equal(t, "–", formatTokens(llm.Usage{}))
	require.Equal(t, "1.5k → 90", formatTokens(llm.Usage{ModelCalls: 1, InputTokens: 1500, OutputTokens: 90}))
	require.Equal(t, "1.5k (700 cached) → 90", formatTokens(llm.Usage{ModelCalls: 1, InputTokens: 1500, CachedInputTokens: 700, OutputTokens: 90}))
}

func TestStamp(t *testing.T) {
	t.Parallel()
	require.Equal(t, template.HTML("–"), timeElement(time.Time{}))
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.FixedZone("CET", 3600))
	require.Equal(t, template.HTML(`<time datetime="2026-11-22T09:00:00Z">2026-11-22 09:00:00 UTC</time>`), timeElement(at))
}

// Labels in sentences become links, and nothing else does.
func TestLinked(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]string{
		"agent1.2 won.":            `<a href="#answer-agent1.2">agent1.2</a> won.`,
		"agent12.final <b>":        `<a href="#answer-agent12.final">agent12.final</a> &lt;b&gt;`,
		"agent0.1 and myagent1.1":  "agent0.1 and myagent1.1",
		"agent_a said \"agent1\"":  "agent_a said &#34;agent1&#34;",
		"agent1.1\u202e backwards": `<a href="#answer-agent1.1">agent1.1</a> backwards`,
	} {
		require.Equal(t, template.HTML(want), linkLabels(sentence), sentence)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	require.Empty(t, joinWords(nil))
	require.Equal(t, "a", joinWords([]string{"a"}))
	require.Equal(t, "a and b", joinWords([]string{"a", "b"}))
	require.Equal(t, "a, b and c", joinWords([]string{"a", "b", "c"}))
}

func TestSlug(t *testing.T) {
	t.Parallel()
	require.Equal(t, "file-agent1.1-a_b_c.html", attributeID("file", "agent1.1", "a b<c.html"))
	require.Equal(t, "_", attributeID("ü"))
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{-1: "0.000%", 0: "0.000%", 0.5: "50.000%", 2: "100.000%"} {
		require.Equal(t, want, cssPercent(share))
	}
}

// A text is truncated to a number of bytes, between characters, with the length of the omitted
// rest.
func TestCutter(t *testing.T) {
	t.Parallel()
	c := &cutter{limit: 5}
	require.Equal(t, cut{Text: "short"[:5], Path: "p"}, c.cutText("short", "p"))
	got := c.cutText("äöüß", "p")
	require.Equal(t, "äö", got.Text)
	require.Equal(t, 4, got.More)
	require.Equal(t, "abc", c.cutText("a\x00bc", "p").Text, "control characters are no text")
}

func TestCutter_markdown(t *testing.T) {
	t.Parallel()
	remembering := &cutter{rendered: map[string]template.HTML{}}
	first := remembering.renderMarkdown("**x**")
	require.Equal(t, template.HTML("<p><strong>x</strong></p>\n"), first)
	remembering.rendered["**x**"] = "kept"
	require.Equal(t, template.HTML("kept"), remembering.renderMarkdown("**x**"))
	require.Equal(t, first, (&cutter{}).renderMarkdown("**x**"))
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, want string }{
		"headings are below those of the page": {"# A\n\n#### B", "<h3>A</h3>\n<h6>B</h6>\n"},
		"emphasis":                             {"*a* **b** ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <del>c</del> <code>d</code></p>\n"},
		"HTML is left out":                     {"a <b onclick=x>b</b> <script>alert(1)</script>", "<p>a b alert(1)</p>\n"},
		"an image is words":                    {"![a cat](https://example.com/cat.png)", "<p>[image: a cat]</p>\n"},
		"a list that begins at 3":              {"3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>\n"},
		"a script is no link":                  {"[x](javascript:alert(1))", "<p>x</p>\n"},
		"an address is a link":                 {"[x](https://example.com)", `<p><a href="https://example.com" rel="nofollow noreferrer noopener" target="_blank">x</a></p>` + "\n"},
		"a list of tasks":                      {"- [x] done\n- [ ] open", "<ul>\n<li>☑ done</li>\n<li>☐ open</li>\n</ul>\n"},
		"a table":                              {"| a |\n|---|\n| b |", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table>\n"},
		"thoughts are left out":                {"<think>hm</think>Yes.", "<p>Yes.</p>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, template.HTML(c.want), markdownHTML(c.source))
		})
	}
}

func TestHighlight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ extension, source, want string }{
		"Go":             {".go", "func f() // <x>", `<span class="k-word">func</span> f() <span class="k-comment">// &lt;x&gt;</span>`},
		"a shell":        {".sh", "if x; # 1", `<span class="k-word">if</span> x; <span class="k-comment"># 1</span>`},
		"strings":        {".js", `a = "b\"c" + 'd' + 12`, `a = <span class="k-string">&#34;b\&#34;c&#34;</span> + <span class="k-string">&#39;d&#39;</span> + <span class="k-number">12</span>`},
		"another file":   {".txt", "if <b>", "if &lt;b&gt;"},
		"open comment":   {".c", "/* a", "/* a"},
		"closed comment": {".c", "/* a\nb */ x", "<span class=\"k-comment\">/* a\nb */</span> x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, template.HTML(c.want), highlightSource(c.source, c.extension))
		})
	}
}

func TestIsText(t *testing.T) {
	t.Parallel()
	require.True(t, isText(nil))
	require.True(t, isText([]byte("text ü")))
	require.True(t, isText([]byte(strings.Repeat("ü", 8<<10))), "a character may be cut at the end")
	require.False(t, isText([]byte("a\x00b")))
	require.False(t, isText([]byte{0xff, 0xfe, 0xfd, 0x20, 0x20, 0x20, 0x20}))
}

// A file with a reserved name is named with the reason, and never shown.
func TestFileOf_reserved(t *testing.T) {
	t.Parallel()
	reads := 0
	read := func(context.Context, string, artifact.File, int64) ([]byte, error) { reads++; return []byte("x"), nil }
	for _, name := range []string{".git/hooks/pre-commit", "src/.GIT", "git~1/x", ".conclave-apply/journal"} {
		f := fileOf(t.Context(), folder{}, artifact.File{Path: name, Size: 1}, &cutter{limit: 100}, read, shownFiles{})
		require.Equal(t, name, f.Path)
		require.Contains(t, f.Size, "refused: ")
		require.False(t, f.Shown)
	}
	require.Zero(t, reads)
	require.True(t, fileOf(t.Context(), folder{}, artifact.File{Path: ".gitignore", Size: 1}, &cutter{limit: 100}, read, shownFiles{}).Shown)
}
