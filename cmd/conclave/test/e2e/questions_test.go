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

// facts reads the visible text of the decision, of the paragraph that explains it, and of each
// fact by its name.
const facts = `(() => {
	const told = {decision: document.getElementById("decision").innerText, why: document.getElementById("why").innerText};
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
				wants := q.Wants
				if len(wants) == 0 {
					wants = []string{q.None}
				}
				for _, want := range wants {
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
