package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCanonicalFormIsReadBackUnchanged(t *testing.T) {
	t.Parallel()
	for name, team := range map[string]Team{
		"built in": Default(), "offline": Default().Offline(), "contract": parse(t, contract),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canonical, err := team.Canonical()
			require.NoError(t, err)
			again, err := Parse("canonical", canonical, Local)
			require.NoError(t, err)
			require.Equal(t, team, again)
			require.Equal(t, team.Hash(), again.Hash())
		})
	}
}

func TestTheHashOfATeamIsItsMeaning(t *testing.T) {
	t.Parallel()
	// Sessions are bound to these: a change of the canonical form is a change for
	// every session that runs while a worker is upgraded.
	require.Equal(t, "6ecb4c24d70109d7356e355cec3c4cdecbd30eacb92380393febdfb39793c5c1", Default().Hash())

	base := parse(t, "agents: [{id: a, backend: {model: m, params: {x: 1, y: 2}}}]")
	require.Equal(t, base.Hash(), parse(t, "orchestrator: {max_revotes: 1}\nagents: [{backend: {params: {y: 2, x: 1}, model: m}, id: a}]").Hash(),
		"order and defaults are not meaning")
	for _, different := range []string{
		"agents: [{id: b, backend: {model: m, params: {x: 1, y: 2}}}]",
		"agents: [{id: a, backend: {model: m, params: {x: 1, y: 3}}}]",
		"agents: [{id: a, backend: {model: m, params: {x: 1, y: 2}}}]\norchestrator: {max_revotes: 2}",
	} {
		require.NotEqual(t, base.Hash(), parse(t, different).Hash(), different)
	}
}

func TestATeamThatIsNoJSONHasNoHash(t *testing.T) {
	t.Parallel()
	team := Default()
	team.Agents[0].Backend.Params = map[string]any{"f": func() {}}
	_, err := team.Canonical()
	require.Error(t, err)
	require.Empty(t, team.Hash())
}
