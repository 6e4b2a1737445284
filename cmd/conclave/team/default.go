package team

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/engine/config"
)

// Dir is where the teams of a local stack are registered.
func Dir(t hall.Target) string { return filepath.Join(t.DataDir, "teams") }

// Registry is the registered teams of a local stack.
func Registry(t hall.Target) activities.Teams { return activities.Teams{Dir: Dir(t)} }

// defaultFile holds the name of the registered team that sessions without a team
// get. Only dev and worker write it, because they serve the data directory.
func defaultFile(t hall.Target) string { return filepath.Join(Dir(t), activities.DefaultTeam) }

// SetDefault makes a team the default of the data directory. On a cluster each
// worker has its own default.
func SetDefault(t hall.Target, team config.Team) error {
	if t.Cluster {
		return nil
	}
	name, err := Registry(t).Register(team)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(Dir(t), ".default-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the default team: %w", err)
	}
	_, err = tmp.WriteString(name + "\n")
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), defaultFile(t))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write the default team in %s: %w", Dir(t), err)
	}
	return nil
}

// Default is the default team of the data directory, if one was set.
func Default(t hall.Target) (team config.Team, found bool, err error) {
	name, err := ReadFile(defaultFile(t))
	if errors.Is(err, fs.ErrNotExist) {
		return team, false, nil
	}
	var data []byte
	if err == nil {
		data, err = ReadFile(filepath.Join(Dir(t), filepath.Base(strings.TrimSpace(string(name)))+".json"))
	}
	if err == nil {
		team, err = config.Parse("its file", data, config.Local)
	}
	if err != nil {
		return config.Team{}, false, fmt.Errorf("read the default team of %s: %w; `conclave dev` sets it anew", t.DataDir, err)
	}
	return team, true, nil
}

// ForOthers is the default team of a worker that a command runs for its own
// session: that of the data directory, else the implicit one, never that of
// --config. The zero value stands for no usable default.
func ForOthers(c *hall.CLI, t hall.Target) config.Team {
	team, found, err := Default(t)
	if err == nil && !found {
		team, _, err = implicit(config.Local)
		team = Resolve(team)
	}
	if err != nil {
		c.Infof("warning: this worker has no default team for sessions that name none: %v", err)
		return config.Team{}
	}
	return team
}
