//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

func browse(tool string, arguments map[string]any) reply {
	return reply{tool: "mcp__playwright__browser_" + tool, arguments: arguments}
}

// With browser: run the second step finds the page of the first, in a conversation of its own,
// and its screenshots are evidence.
func TestScenarioSharesItsBrowser(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.opens()
	shot := []reply{
		browse("take_screenshot", map[string]any{"type": "png", "filename": "after.png"}),
		{tool: "record_evidence", arguments: map[string]any{"name": "after", "type": "screenshot", "path": "after.png"}},
	}
	replies := append([]reply{browse("navigate", map[string]any{"url": "http://" + s.address + "/?customer=ada"})}, shot...)
	replies = append(replies, pass("It opened."), browse("snapshot", map[string]any{}))
	replies = append(append(replies, shot...), pass("It is still open."))
	model := newModelServer(t, map[string][]reply{"scripted": replies})
	file := filepath.Join(s.home, "shop", "conclave.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(content(t, file), "http://"+s.address+"/v1", model.URL+"/v1")), 0o600))
	s.trusts()
	require.Equal(t, 0, s.conclave("scenario", "create", "shop", "tour", "--step", "Open: Open the shop.", "--step", "Look: Look at the page.").code)
	meta := filepath.Join(s.home, "shop/scenarios/tour/meta.yaml")
	require.NoError(t, os.WriteFile(meta, []byte(content(t, meta)+"browser: run\nrequire_evidence: true\n"), 0o600))

	out := s.conclave("scenario", "run", "shop", "tour", "--automation")
	require.Equal(t, 0, out.code)
	var run scenario.Run
	out.lastLine(t, &run)
	require.Equal(t, "pass pass", statuses(run))
	for _, step := range run.Steps {
		require.Equal(t, []string{"step-" + step.ID + "/evidence/after.png"}, step.EvidencePaths)
		require.Empty(t, step.Warnings)
	}
	require.Contains(t, model.request("scripted", 5), "The browser is the one that the steps before used")
	require.NotContains(t, model.request("scripted", 5), "navigate\",\"arguments", "a conversation of its own")
	require.Contains(t, model.request("scripted", 6), "customer=ada", "the page is still open")
	require.Contains(t, model.request("scripted", 1), "never for a number of seconds")
}
