package files

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func TestTranscript_scenario(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	add := func(slug, run string, launch int, text string) {
		dir := artifact.InScenario(slug, run).ScenarioStep("02", launch, "")
		require.NoError(t, artifact.PutJSON(t.Context(), store, dir+"step.json", artifact.Claim{Token: text, StartedAt: time.Unix(1, 0).UTC()}))
		data, err := json.Marshal(entryAt{Time: time.Unix(1, 0).UTC(), Entry: loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: text}}}})
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), dir+"transcript.jsonl", bytes.NewReader(append(data, '\n'))))
	}
	add("buy", "r1", 1, "the first start")
	add("buy", "r1", 2, "the second start")
	add("buy", "both", 1, "of buy")
	add("sell", "both", 1, "of sell")
	shown := func(id, step string, number int) (int, string) {
		code, stdout, stderr := asked(t, cli.CLI{}, &cli.Connection{Store: store}, stepRequest{run: id, agent: step, step: number})
		return code, stdout + stderr
	}
	for _, c := range []struct {
		id, step string
		number   int
		want     string
	}{
		{"r1", "02", 0, "the second start"},
		{"r1", "2", 1, "the first start"},
		{"scenario-buy-r1", "02", 1, "the first start"},
		{"scenario-sell-both", "02", 0, "of sell"},
		{"buy/both", "02", 0, "of buy"},
	} {
		code, said := shown(c.id, c.step, c.number)
		require.Equal(t, cli.ExitOK, code, said)
		require.Contains(t, said, c.want)
	}
	for want, c := range map[string]stepRequest{
		`scenario run buy/r1 has no step "07"; it has 02 001, 02 002`:        {run: "r1", agent: "07"},
		`has no step "02 003"; it has 02 001, 02 002`:                        {run: "r1", agent: "02", step: 3},
		"several scenarios have a run both; name one of buy/both, sell/both": {run: "both", agent: "02"},
		"there is no session nothing":                                        {run: "nothing", agent: "02"},
	} {
		code, said := shown(c.run, c.agent, c.step)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, said, want)
	}
}
