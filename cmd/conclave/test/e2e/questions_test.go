//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
)

// facts opens the page and reads the visible text of four parts, and of each fact by its name.
const facts = `(() => {
	for (const d of document.querySelectorAll("details")) d.open = true;
	const told = {};
	for (const part of ["decision", "why", "steps", "cost"]) told[part] = document.getElementById(part).innerText;
	for (const div of document.querySelectorAll("#why dl > div"))
		told[div.querySelector("dt").innerText] = [...div.querySelectorAll("dd")].map((dd) => dd.innerText).join(" ");
	return told;
})()`

// The visible text and the accessibility tree answer ten questions as the ledger does.
func TestPage_questions(t *testing.T) {
	for _, script := range stage.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			p := script.Play(t)
			b := open(t, written(t, p), 1600)
			told := pageEval[map[string]string](b, facts)
			tree := treeText(b)
			for _, q := range p.Questions() {
				answer := words(told[q.Where])
				for _, never := range q.Never {
					if len(q.Wants) == 0 {
						require.NotContains(t, answer, never, q.Asked)
					}
				}
				for _, want := range q.Wants {
					require.Contains(t, answer, words(want), q.Asked)
					require.Contains(t, tree, words(want), "%s in the accessibility tree", q.Asked)
				}
			}
			b.quiet()
		})
	}
}

// treeText is the text of the accessibility tree.
func treeText(b *tab) string {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b.t, err)
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range tree.Nodes {
		byID[n.NodeID] = n
	}
	var text strings.Builder
	var walk func(n *accessibility.Node)
	walk = func(n *accessibility.Node) {
		if n == nil {
			return
		}
		if nameOf(n.Role) == "StaticText" {
			text.WriteString(nameOf(n.Name))
		}
		for _, child := range n.ChildIDs {
			walk(byID[child])
		}
	}
	walk(tree.Nodes[0])
	return words(text.String())
}

// nameOf decodes a value that is a text.
func nameOf(v *accessibility.Value) string {
	var text string
	if v == nil || json.Unmarshal(v.Value, &text) != nil {
		return ""
	}
	return text
}
