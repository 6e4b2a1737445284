package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"conclave/activities"
	"conclave/engine/config"
)

// defaultFile names, in the directory of registered teams, the one that
// sessions get which name none and bring none. Only dev and worker write it:
// they serve a data directory, run and watch only pass by.
func (t target) defaultFile() string { return filepath.Join(t.teamsDir(), activities.DefaultTeam) }

// setDefault makes team the default of the data directory. On a cluster every
// worker has its own.
func (t target) setDefault(team config.Team) error {
	if t.cluster {
		return nil
	}
	name, err := activities.Teams{Dir: t.teamsDir()}.Register(team)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(t.teamsDir(), ".default-*") // mode 0600
	if err != nil {
		return fmt.Errorf("note the default team: %w", err)
	}
	_, err = tmp.WriteString(name + "\n")
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), t.defaultFile())
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("note the default team in %s: %w", t.teamsDir(), err)
	}
	return nil
}

// defaultTeam is what the data directory says is its default, if it says any.
func (t target) defaultTeam() (team config.Team, found bool, err error) {
	name, err := readInput(t.defaultFile())
	if errors.Is(err, fs.ErrNotExist) {
		return team, false, nil
	}
	var data []byte
	if err == nil {
		data, err = readInput(filepath.Join(t.teamsDir(), filepath.Base(strings.TrimSpace(string(name)))+".json"))
	}
	if err == nil {
		team, err = config.Parse("its file", data, config.Local)
	}
	if err != nil {
		return config.Team{}, false, fmt.Errorf("read the default team of %s: %w; `conclave dev` sets it anew", t.dataDir, err)
	}
	return team, true, nil
}

// passingTeam is the default team in a worker of run and watch: the data
// directory's, else that of somebody who names none. What the invocation brings
// for its own session is nobody else's. If there is none that can be used, the
// worker knows no default, and the zero value is returned.
func (c *cli) passingTeam(t target) config.Team {
	team, found, err := t.defaultTeam()
	if err == nil && !found {
		team, _, err = implicitTeam(config.Local)
		team = resolveModels(team)
	}
	if err != nil {
		c.say("warning: this worker has no default team for sessions that name none: %v", err)
		return config.Team{}
	}
	return team
}
