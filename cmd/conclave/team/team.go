package team

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/config"
	"conclave/worker"
)

// ProjectFile is the team configuration of the working directory.
const ProjectFile = "conclave.yaml"

// Load reads the team of this invocation: --config, else ./conclave.yaml, else the
// built-in one. Source names it for people.
func Load(c *hall.CLI, reach config.Reach) (team config.Team, source string, err error) {
	if c.Config != "" {
		return Read(c.Config, reach)
	}
	return implicit(reach)
}

// implicit is the team without --config.
func implicit(reach config.Reach) (team config.Team, source string, err error) {
	if _, err := os.Lstat(ProjectFile); errors.Is(err, fs.ErrNotExist) {
		return config.Default(), "the built-in team", nil
	}
	return Read(ProjectFile, reach)
}

// Read reads and checks a team configuration.
func Read(file string, reach config.Reach) (team config.Team, source string, err error) {
	data, err := ReadConfig(file)
	if err != nil {
		return config.Team{}, file, err
	}
	team, err = config.Parse(file, data, reach)
	return team, file, err
}

// Local is Load for a worker on this machine: models have addresses, and the
// variables of their keys are set.
func Local(c *hall.CLI, offline bool) (team config.Team, source string, err error) {
	team, source, err = Load(c, config.Local)
	if err != nil {
		return team, source, err
	}
	if offline {
		return team.Offline(), source, nil
	}
	team = Resolve(team)
	return team, source, Startable(team)
}

// Startable refuses a team whose sessions could only fail.
func Startable(team config.Team) error {
	if err := MissingKeys(team); err != nil {
		return err
	}
	return worker.Models{}.CheckPrices(team)
}

// Resolve sets the address of each model and the variable of its key, so that the
// team means the same to every worker of the data directory.
func Resolve(team config.Team) config.Team {
	var models worker.Models
	agents := make([]config.Agent, 0, len(team.Agents))
	for _, agent := range team.Agents {
		agent.Backend = models.Resolve(agent.Backend)
		agents = append(agents, agent)
	}
	team.Agents = agents
	return team
}

// MissingKeys is an error that names the unset variables of keys, with remedies.
func MissingKeys(team config.Team) error {
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

// Describe lists agents and models in one line.
func Describe(team config.Team) string {
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

// OfflineNote is printed wherever the built-in model answers.
const OfflineNote = "offline: the built-in deterministic model answers and votes; no language model is asked"
