package massgen

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Notes with the same message about the same key of different agents are combined, in the order of
// the document.
func TestNotes(t *testing.T) {
	t.Parallel()
	var ns notes
	ns.addNote("agents[1].backend.cwd", 9, []string{"x"}, "%s", workspace)
	ns.addNote("agents[0].backend.cwd", 4, []string{"x", "y"}, "%s", workspace)
	ns.addNote("agents[0].backend.cwd", 4, nil, "%s", workspace)
	ns.addNote("agents[0].backend.top_k", 3, nil, "moved to %s", "backend.params.top_k")
	ns.addNote("agents[0].cwd", 2, nil, "another reason")
	all := ns.sortByLine()
	require.Len(t, all, 3)
	require.Equal(t, "agents[0].cwd: another reason", all[0].String())
	require.Equal(t, "agents[0].backend.top_k: moved to backend.params.top_k", all[1].String())
	require.Equal(t, "agents[1].backend.cwd, agents[0].backend.cwd (with x, y): "+workspace, all[2].String())

	ns.removeKey("agents[1].backend.cwd")
	ns.removeKey("agents[0].cwd")
	require.Equal(t, []string{"agents[0].backend.cwd"}, ns.sortByLine()[1].Keys)
	require.Len(t, ns, 2, "a note without keys is removed")
}
