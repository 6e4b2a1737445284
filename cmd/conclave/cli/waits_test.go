package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
)

// While a session waits for a model, a log says every minute what it waits for and which key
// shortens that. It says nothing of an agent without which the others go on.
func TestLines_waits(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	doing := func(kind coordination.DoingKind, since int, what string) coordination.Doing {
		return coordination.Doing{Kind: kind, Since: at(since), What: what}
	}
	boom := doing(coordination.ModelAway, 2, "boom")
	failing := Activity{Agent: "c", Doing: boom}
	trying := Activity{Agent: "c", Doing: doing(coordination.CallsModel, 110, "model call 1; trying again after: boom")}
	silent := Activity{Agent: "c", Doing: doing(coordination.CallsModel, 0, "model call 1")}
	streams := Activity{Agent: "c", Said: "So far", Doing: doing(coordination.CallsModel, 0, "model call 1")}
	limited := Activity{Agent: "c", Doing: doing(coordination.RateLimited, 0, "slow down")}
	works := Activity{Agent: "a", Doing: doing(coordination.RunsTool, 0, "run_command make")}
	other := Activity{Work: "Prepare", Doing: boom}
	team := func(answered int, c coordination.AgentView) []coordination.AgentView {
		agents := []coordination.AgentView{{ID: "a"}, {ID: "b"}, c}
		for i := range answered {
			agents[i].LatestLabel = "agent.1"
		}
		return agents
	}
	running := coordination.AgentView{ID: "c", Running: true}
	for name, tt := range map[string]struct {
		agents     []coordination.AgentView
		activities []Activity
		want       string
	}{
		"an outage beside two of three": {team(2, running), []Activity{failing}, `1:05 waiting for c for 1 min: outage: boom; timeout_settings.away_seconds shortens this
2:05 waiting for c for 2 min: outage: boom; timeout_settings.away_seconds shortens this
`},
		"an outage beside one of three": {team(1, running), []Activity{works, failing}, `1:05 waiting for c for 1 min: outage: boom; timeout_settings.outage_seconds shortens this
2:05 waiting for c for 2 min: outage: boom; timeout_settings.outage_seconds shortens this
`},
		"a silent call beside two of three": {team(2, running), []Activity{silent}, `1:05 waiting for c for 1 min: model call 1; timeout_settings.away_seconds shortens this
2:05 waiting for c for 2 min: model call 1; timeout_settings.away_seconds shortens this
`},
		"a silent call beside one of three": {team(1, running), []Activity{silent}, `1:05 waiting for c for 1 min: model call 1; silent_timeout_seconds of its backend shortens this
2:05 waiting for c for 2 min: model call 1; silent_timeout_seconds of its backend shortens this
`},
		"a new try":             {team(2, running), []Activity{trying}, ""},
		"an agent that is away": {team(2, coordination.AgentView{ID: "c", Running: true, Doing: &boom}), []Activity{failing}, ""},
		"a reply under way":     {team(2, running), []Activity{streams}, ""},
		"a session that ended":  {team(2, coordination.AgentView{ID: "c"}), []Activity{failing}, ""},
		"a rate limit":          {team(2, running), []Activity{limited}, ""},
		"other work":            {team(2, running), []Activity{other}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l := lines{out: &out, activities: &Log{}}
			for _, second := range []int{5, 30, 65, 66, 90, 125, 126} {
				s := Snapshot{State: acts.State{View: coordination.View{Agents: tt.agents}}, Elapsed: at(second).Sub(began), Now: at(second), Activities: tt.activities}
				for _, line := range l.activities.Waits(s) {
					l.writeLine(Clock(s.Elapsed), line)
				}
			}
			require.Equal(t, tt.want, out.String())
		})
	}
}
