package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker"
)

// projectFile is the team of the directory that a command runs in.
const projectFile = "conclave.yaml"

// loadTeam reads this invocation's team: --config, else ./conclave.yaml, else
// the built-in one. Source says which, for people.
func (c *cli) loadTeam(reach config.Reach) (team config.Team, source string, err error) {
	if c.config != "" {
		return readTeam(c.config, reach)
	}
	return implicitTeam(reach)
}

// implicitTeam is the team of somebody who names none.
func implicitTeam(reach config.Reach) (team config.Team, source string, err error) {
	if _, err := os.Lstat(projectFile); errors.Is(err, fs.ErrNotExist) {
		return config.Default(), "the built-in team", nil
	}
	return readTeam(projectFile, reach)
}

func readTeam(file string, reach config.Reach) (team config.Team, source string, err error) {
	data, err := readTeamFile(file)
	if err != nil {
		return config.Team{}, file, err
	}
	team, err = config.Parse(file, data, reach)
	return team, file, err
}

// localTeam is the team as a worker of this machine runs it: models are at
// addresses, keys are names of variables that are set.
func (c *cli) localTeam(offline bool) (team config.Team, source string, err error) {
	team, source, err = c.loadTeam(config.Local)
	if err != nil {
		return team, source, err
	}
	if offline {
		return team.Offline(), source, nil
	}
	team = resolveModels(team)
	return team, source, startable(team)
}

// startable is an error if sessions of the team could only fail.
func startable(team config.Team) error {
	if err := missingKeys(team); err != nil {
		return err
	}
	return worker.Models{}.CheckPrices(team)
}

// resolveModels settles where models are and which variable holds their key,
// so that the team means the same to every worker of the data directory.
func resolveModels(team config.Team) config.Team {
	var models worker.Models
	agents := make([]config.Agent, 0, len(team.Agents))
	for _, agent := range team.Agents {
		agent.Backend = models.Resolve(agent.Backend)
		agents = append(agents, agent)
	}
	team.Agents = agents
	return team
}

// missingKeys is an error if a key variable is named and not set.
func missingKeys(team config.Team) error {
	needed := worker.Models{}.MissingKeys(team)
	if len(needed) == 0 {
		return nil
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		missing = append(missing, fmt.Sprintf("the environment variable %s is not set; it holds the API key of %s", name, strings.Join(needed[name], ", ")))
	}
	remedy := "Set it, or run with --offline to try conclave without any model."
	if _, openai := needed[worker.KeyVariable]; openai {
		remedy = `There are three ways out:
  set OPENAI_API_KEY to a key for the OpenAI API, or
  set OPENAI_BASE_URL to a local server such as Ollama or vLLM
      (OPENAI_BASE_URL=http://127.0.0.1:11434/v1), or
  run with --offline, which needs no key and no network.`
	}
	return fmt.Errorf("%s.\n%s", strings.Join(missing, "\n"), remedy)
}

// teams are what a worker of this process knows: the default team, unless it is
// the zero value. On a local stack that is registered too, so that sessions
// which began with it can go on in every worker of the data directory.
func (t target) teams(team config.Team) (activities.Teams, error) {
	teams := activities.Teams{Named: map[string]config.Team{}}
	if !t.cluster {
		teams.Dir = t.teamsDir()
	}
	if len(team.Agents) == 0 {
		return teams, nil
	}
	teams.Named[activities.DefaultTeam] = team
	if t.cluster {
		return teams, nil
	}
	_, err := teams.Register(team)
	return teams, err
}

// teamsDir is where a local stack's teams are registered.
func (t target) teamsDir() string { return filepath.Join(t.dataDir, "teams") }

// describeTeam is a team in a few words.
func describeTeam(team config.Team) string {
	var agents []string
	for _, a := range team.Agents {
		model := a.Backend.Model
		if a.Backend.Type == config.Offline {
			model = "offline"
		}
		agents = append(agents, a.ID+" ("+model+")")
	}
	return strings.Join(agents, ", ")
}
