//go:build !race

package worth_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/loop"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// Sessions with their workflow, activities and prompts decide as the replay does: 500 with `make recorded`.
func TestReplay_decidesAsSessions(t *testing.T) {
	t.Parallel()
	each := 12
	if _, all := kept(); all {
		each = 100
	}
	r := readLetters(t, nil)
	best := strongest(t, r)
	for i, c := range []struct {
		members []string
		params  map[string]any
		change  func(*config.Team)
	}{
		{best[:3], map[string]any{"votes": "own"}, nil},
		{[]string{best[4], best[17], best[9]}, map[string]any{"votes": "plurality"}, nil},
		{best[:3], map[string]any{"judging": 0.6, "seed": 7}, nil},
		{[]string{best[17], best[9], best[2]}, map[string]any{"votes": "own"}, func(team *config.Team) {
			team.Orchestrator.EarlyAgreement, team.Orchestrator.TeamSize.Start = true, new(2)
		}},
		{[]string{best[24], best[25], best[1]}, map[string]any{"votes": "own", "judging": 0.3}, func(team *config.Team) {
			for i := range team.Agents {
				team.Agents[i].Skill = new([]float64{0.3, 0.2, 0.6}[i])
			}
		}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(uint64(i), 39))
			rows := chance.Perm(questions)[:each]
			drawn := readLetters(t, rows)
			file := filepath.Join(t.TempDir(), "letters.tsv")
			require.NoError(t, os.WriteFile(file, nil, 0o600)) // the models have the recording already
			team := recordedTeam(file, c.members, c.params)
			if c.change != nil {
				c.change(&team)
			}
			l := lineup(t, drawn, voterOf(c.params), c.members...)
			l.Config = team.Coordination()
			for i, a := range team.Agents {
				l.Seats[i].Skill = a.Skill
			}
			for n, want := range replayer(drawn).Judge(l) {
				q := drawn.Questions[n]
				result := playRecorded(t, drawn, team, q.Prompt(), "s"+strconv.Itoa(n))
				require.Equal(t, want.Winner, result.Winner, "%s %s", q.ID, result.Status)
				if l.Config.Start > 0 && want.Support != nil && result.Support != nil { // who joins for a failed member may be shown what ends meanwhile
					result.Support.Agreement, result.Support.Spread = want.Support.Agreement, want.Support.Spread
				}
				require.Equal(t, want.Support, result.Support, q.ID)
				_, right := q.Score("", result.Answer)
				require.Equal(t, want.Right, right != nil && *right, q.ID)
			}
		})
	}
}

// recordedTeam returns a team of members with recorded answers.
func recordedTeam(file string, members []string, params map[string]any) config.Team {
	team := config.Defaults[config.Team]()
	for i, name := range members {
		a := config.Defaults[config.Agent]()
		a.ID, a.Tools.Files = "agent_"+string(rune('a'+i)), false
		a.Backend = config.Backend{Type: config.Recorded, Params: map[string]any{config.RecordedData: file, config.RecordedMember: name}}
		for key, value := range params {
			a.Backend.Params[key] = value
		}
		team.Agents = append(team.Agents, a)
	}
	return team
}

func voterOf(params map[string]any) eval.Voter {
	v := eval.Voter{}
	v.Votes, _ = params["votes"].(string)
	v.Judging, _ = params["judging"].(float64)
	if seed, ok := params["seed"].(int); ok {
		v.Seed = int64(seed)
	}
	return v
}

// playRecorded plays a session of a team with recorded answers in the test environment of workflows.
func playRecorded(t *testing.T, r *eval.Recording, team config.Team, query, id string) session.Result {
	t.Helper()
	s := stagetest.New(t, nil, func(standard *config.Team) { *standard = team })
	s.Model = func(a config.Agent) (loop.Model, error) { return offline.Recorded(a.ID, a.Backend.Params, r) }
	return stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: query, SessionID: id})
}
