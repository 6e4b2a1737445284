package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const answered = "<think>hm</think># Split by **tenant** & `id`, not\n\n" +
	"Because a *migration* of one table is\nlong, and [the docs](https://example.com/a) say so: https://example.com/b\n\n" +
	"- one tenant a day, in the order of their sizes, the smallest first\n- a rollback is a route\n  1. drain\n  2. switch\n- [x] tried\n\n" +
	"```sql\nALTER TABLE users\n\tADD shard int;\n```\n\n" +
	"| shard | tenants |\n|---|---|\n| 1 | 漢字 to b |\n| 22 | c |\n\n" +
	"> It was so.\n\n---\n\n<b>raw</b> \\*not\\* ![a tree](x.png) ~~gone~~\n\n<div>\nblock\n</div>\n\n<!-- a\ncomment -->\n"

func TestMarkdown_withoutColour(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.TrimPrefix(`
Split by tenant & `+"`id`"+`, not

Because a migration of one table is
long, and the docs
(https://example.com/a) say so:
https://example.com/b

• one tenant a day, in the order of
  their sizes, the smallest first
• a rollback is a route
  1. drain
  2. switch
• [x] tried

  ALTER TABLE users
      ADD shard int;

shard  tenants
1      漢字 to b
22     c

│ It was so.

────────────────────────────────────

<b>raw</b> *not* [image: a tree]
~~gone~~

  <div>
  block
  </div>

  <!-- a
  comment -->`, "\n"), RenderMarkdown(answered, 36, false))
}

// A style inside another one ends without ending that one.
func TestMarkdown_colour(t *testing.T) {
	t.Parallel()
	rendered := strings.ReplaceAll(RenderMarkdown(answered, 80, true), "\x1b", "")
	require.Contains(t, rendered, "[1mSplit by [1mtenant[22;1m & [36mid[39m, not[22m\n")
	require.Contains(t, rendered, "a [3mmigration[23m of")
	require.Contains(t, rendered, "the docs[2m (https://example.com/a)[22m\nsay")
	require.Contains(t, rendered, "  [36mALTER TABLE users[39m\n  [36m    ADD shard int;[39m")
	require.Contains(t, rendered, "[1mshard  tenants[22m\n1 ")
}

// The cells of a table that is too wide for the screen are not aligned.
func TestMarkdown_wideTable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a | b\nlong long long long\n| y", RenderMarkdown("| a | b |\n|---|---|\n| long long long long | y |\n", 20, false))
}

// No text of a model reaches a terminal with a control character in it, also not one that Markdown
// writes as an entity.
func TestMarkdown_hostile(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a[31mb›[2Jc\u00a0& d", RenderMarkdown("a&#27;[31mb&#x9b;[2Jc&nbsp;&amp; \x1b[5md\u202e", 80, false))
	pieces := []string{"\x1b[31m", "&#27;", "&#x9b;", "&#x202e;", "`", "**", "[x](", ")", "\n", "\n\n", "- ", "> ", "|", "---|", "```", "<b>", "<!--\n", "-->", "# ", "\\", "\t", "é", "漢", "1. ", "\u009b", "\u202e"}
	rapid.Check(t, func(t *rapid.T) {
		content := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), "")
		for _, color := range []bool{false, true} {
			rendered := ansi.Strip(RenderMarkdown(content, 30, color))
			require.NotContains(t, rendered, "\u202e")
			require.Less(t, strings.IndexFunc(rendered, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }), 0, "%q", rendered)
			if !color {
				require.Equal(t, rendered, RenderMarkdown(content, 30, color))
			}
		}
	})
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		answered:                        "Split by tenant & `id`, not",
		"\n\n- first\n- second":         "first",
		"```\ncode &amp; `x`\n```":      "code &amp; `x`",
		"a `&amp;` b":                   "a `&amp;` b",
		"> quoted":                      "quoted",
		"":                              "",
		"---\n\nafter a rule":           "after a rule",
		"one\ntwo":                      "one two",
		"\x1b]0;title\x07plain\x1b[31m": "plain",
	} {
		require.Equal(t, want, FirstLine(answer), "%q", answer)
	}
}

// Below a rule the answer is rendered on a terminal only.
func TestPrintAnswer_pipe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&CLI{Stdout: &out}).PrintAnswer("# **a**\x1b[31m\n\n"))
	require.Equal(t, "# **a**\n", out.String())
}
