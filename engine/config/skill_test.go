package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func TestParse_modelOfKnownSkill(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents:
  - id: agent_a
    backend: {type: offline, params: {skill: 0.6, judging: 1, seed: 1, targets: questions.jsonl}}
`)
	require.Equal(t, "questions.jsonl", team.Agents[0].Backend.Params[Targets])
	canonical, err := team.Canonical()
	require.NoError(t, err)
	_, err = Parse("team.json", canonical, Local)
	require.NoError(t, err)

	for name, tc := range map[string]struct {
		params string
		reach  Reach
		want   string
	}{
		"skill":      {"{skill: 1.5, targets: q}", Local, "agents[0].backend.params.skill: 1.5 is out of range; valid: 0 to 1"},
		"judging":    {"{judging: yes, targets: q}", Local, "params.judging: expected a number"},
		"seed":       {"{seed: 1.5, targets: q}", Local, "params.seed: expected a whole number"},
		"targets":    {"{targets: [q]}", Local, "params.targets: expected a string"},
		"no targets": {"{skill: 1}", Local, "params: targets is missing"},
		"near":       {"{skil: 1, targets: q}", Local, "params.skil: unknown key; did you mean skill?"},
		"other":      {"{temperature: 1, targets: q}", Local, "valid: skill, judging, seed, targets"},
		"cluster":    {"{targets: q}", Cluster, "a session on a cluster cannot name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("team.yaml", []byte("agents: [{id: agent_a, backend: {type: offline, params: "+tc.params+"}}]"), tc.reach)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestParse_recordedAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answers.tsv"), nil, 0o600))
	agent := func(params string) []byte {
		return []byte("agents: [{id: agent_a, skill: 0.7, backend: {type: recorded, params: " + params + "}}]")
	}
	team, err := Parse("team.yaml", agent("{data: answers.tsv, member: gemma, votes: plurality, judging: 0.5}"), Local.Beside(filepath.Join(dir, "team.yaml")))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "answers.tsv"), team.Agents[0].Backend.Params[RecordedData])
	require.Equal(t, Recorded, team.OfflineKind())
	require.Equal(t, map[string]float64{"agent_a": 0.7}, team.Coordination().Skill)

	for want, params := range map[string]string{
		"params: no data or no member":                           "{member: gemma}",
		"no data or no member; recorded answers are named as in": "{data: a.tsv}",
		"params.votes: unknown value \"mine\"":                   "{data: a.tsv, member: m, votes: mine}",
		"params.judging: 2 is out of range":                      "{data: a.tsv, member: m, judging: 2}",
		"params.member: expected a string":                       "{data: a.tsv, member: [3]}",
		"params.vote: unknown key; did you mean votes":           "{data: a.tsv, member: m, vote: own}",
	} {
		_, err := Parse("team.yaml", agent(params), Local)
		require.ErrorContains(t, err, want)
	}
	_, err = Parse("team.yaml", agent("{data: a.tsv, member: m}"), Cluster)
	require.ErrorContains(t, err, "which a session on a cluster cannot name")
	_, err = Parse("team.yaml", []byte("agents: [{id: agent_a, skill: 1.5, backend: {type: offline}}]"), Local)
	require.ErrorContains(t, err, "agents[0].skill: 1.5 is out of range; valid: 0 to 1")
}

// A promise needs a calibration of the same team, wherever its models are served, that keeps it.
func TestParse_promise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const agents = "agents: [{id: agent_a, backend: {model: m}}, {id: agent_b, backend: {model: n}}]\n"
	team := parse(t, agents)
	calibration := coordination.Calibration{
		Team: team.Identity(), From: "e1", Questions: 300, Parts: []string{"share"},
		Levels: []coordination.Level{{Score: 1, Acted: 200, Wrong: 2}, {Score: 0.5, Acted: 300, Wrong: 60}},
	}
	write := func(name string, c coordination.Calibration) {
		data, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	write("good.json", calibration)
	parsed := func(text, act string, reach Reach) (Team, error) {
		return Parse("team.yaml", []byte(text+"orchestrator: {act_when: "+act+"}"), reach)
	}
	beside := Local.Beside(filepath.Join(dir, "team.yaml"))

	kept, err := parsed(agents, "{wrong: 0.05, calibration: good.json}", beside)
	require.NoError(t, err)
	require.Equal(t, &coordination.Threshold{Parts: []string{"share"}, Least: 1}, kept.Coordination().Promise)
	require.Equal(t, team.Identity(), kept.Identity())
	canonical, err := kept.Canonical()
	require.NoError(t, err)
	again, err := Parse("team.json", canonical, Cluster)
	require.NoError(t, err, "the content travels with the team")
	require.Equal(t, kept, again)
	elsewhere := strings.ReplaceAll(agents, "model: m", "model: m, base_url: 'http://127.0.0.1:1/v1'")
	_, err = parsed(elsewhere, "{wrong: 0.05, calibration: good.json}", beside)
	require.NoError(t, err)

	few := calibration
	few.Questions, few.Levels = 40, []coordination.Level{{Score: 1, Acted: 40}}
	write("few.json", few)
	for want, c := range map[string]struct {
		text, act string
		reach     Reach
	}{
		"act_when.wrong: a promise needs a calibration":                         {agents, "{wrong: 0.05}", beside},
		"act_when.calibration: there is no promise to keep":                     {agents, "{calibration: good.json}", beside},
		"no calibration can be read: open none.json":                            {agents, "{wrong: 0.05, calibration: none.json}", beside},
		"it was made for another team":                                          {strings.ReplaceAll(agents, "n}", "other}"), "{wrong: 0.05, calibration: good.json}", beside},
		"on at least 59 questions without act_when":                             {strings.ReplaceAll(agents, "n}", "other}"), "{wrong: 0.05, calibration: good.json}", beside},
		"act_when.wrong: 40 questions are too few: of the 40 decisions":         {agents, "{wrong: 0.05, calibration: few.json}", beside},
		"act_when.wrong: 300 questions are too few: of the 200 decisions":       {agents, "{wrong: 0.012, calibration: good.json}", beside},
		"act_when.wrong: no threshold holds, and more questions would not help": {agents, "{wrong: 0.005, calibration: good.json}", beside},
		"act_when.calibration: a file of the worker's machine":                  {agents, "{wrong: 0.05, calibration: good.json}", Cluster},
		"act_when.calibration: expected a mapping, found":                       {agents, "{wrong: 0.05, calibration: [1]}", beside},
	} {
		_, err := parsed(c.text, c.act, c.reach)
		require.ErrorContains(t, err, want)
	}
}
