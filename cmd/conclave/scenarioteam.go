package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"conclave/activities"
	"conclave/engine/config"
)

// testerID is the agent of a file that gives it no ID.
const testerID = "tester"

// tester is the team of one that carries out the steps: --config, else that of the
// project, else that of the directory that the command runs in.
func (c *cli) tester(t target, offline bool, dir string) (team config.Team, source string, err error) {
	source = c.config
	for _, file := range []string{filepath.Join(dir, projectFile), projectFile} {
		if source != "" {
			break
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			source = file
		}
	}
	if source == "" && offline {
		team = config.Default()
		team.Agents = team.Agents[:1]
		return team.Offline(), "the built-in agent", nil
	}
	if source == "" {
		return team, "", fmt.Errorf("scenarios need a configuration with exactly one agent; name its file with --config FILE, or put it into %s", filepath.Join(dir, projectFile))
	}
	data, err := readTeamFile(source)
	if err != nil {
		return team, source, err
	}
	if t.cluster {
		team, err = config.Parse(source, data, config.Cluster)
	} else {
		team, err = config.ParseSingle(source, data)
	}
	if err != nil {
		return team, source, err
	}
	if err := activities.CheckTester(team); err != nil {
		return team, source, fmt.Errorf("%s: %w", source, err)
	}
	if team.Agents[0].ID == "" {
		team.Agents[0].ID = testerID
	}
	switch {
	case offline:
		return team.Offline(), source, nil
	case t.cluster:
		return team, source, nil
	}
	team = resolveModels(team)
	return team, source, startable(team)
}
