package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"

	acts "conclave/activities/scenario"
	"conclave/engine/config"
)

// testerID is the agent of a file that gives it no ID.
const testerID = "tester"

// tester is the team of one that carries out the steps: --config, else that of the
// project, else that of the directory that the command runs in.
func tester(c *hall.CLI, t hall.Target, offline bool, dir string) (agents config.Team, source string, err error) {
	source = c.Config
	for _, file := range []string{filepath.Join(dir, team.ProjectFile), team.ProjectFile} {
		if source != "" {
			break
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			source = file
		}
	}
	if source == "" && offline {
		agents = config.Default()
		agents.Agents = agents.Agents[:1]
		return agents.Offline(), "the built-in agent", nil
	}
	if source == "" {
		return agents, "", fmt.Errorf("scenarios need a configuration with exactly one agent; name its file with --config FILE, or put it into %s", filepath.Join(dir, team.ProjectFile))
	}
	data, err := team.ReadConfig(source)
	if err != nil {
		return agents, source, err
	}
	if t.Cluster {
		agents, err = config.Parse(source, data, config.Cluster)
	} else {
		agents, err = config.ParseSingle(source, data)
	}
	if err != nil {
		return agents, source, err
	}
	if err := acts.CheckTester(agents); err != nil {
		return agents, source, fmt.Errorf("%s: %w", source, err)
	}
	if agents.Agents[0].ID == "" {
		agents.Agents[0].ID = testerID
	}
	switch {
	case offline:
		return agents.Offline(), source, nil
	case t.Cluster:
		return agents, source, nil
	}
	agents = team.Resolve(agents)
	return agents, source, team.Startable(agents)
}

// sayIdle names what the team's file says and scenarios do not heed: how a team
// decides, and how long a session may take.
func sayIdle(c *hall.CLI, w *order) {
	set := append(changed("orchestrator", w.team.Orchestrator), changed("timeout_settings", w.team.Timeouts)...)
	if w.team.Agents[0].Subtask != "" {
		set = append(set, "agents[0].subtask")
	}
	for _, key := range set {
		c.Warnf("%s: %s has no effect on scenarios%s", w.source, key, instead(key))
	}
}

// instead is what does what a key of a session's would do.
func instead(key string) string {
	if strings.HasPrefix(key, "timeout_settings.") {
		return "; --step-timeout bounds each step"
	}
	return ""
}

// changed are the keys of a section that have other values than their defaults, in
// byte order.
func changed[T any](section string, given T) []string {
	return differing(section, fields(given), fields(config.Defaults[T]()))
}

func differing(at string, given, usual map[string]any) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		inner, ok := given[key].(map[string]any)
		within, also := usual[key].(map[string]any)
		switch {
		case ok && also:
			keys = append(keys, differing(at+"."+key, inner, within)...)
		case !reflect.DeepEqual(given[key], usual[key]):
			keys = append(keys, at+"."+key)
		}
	}
	return keys
}

// fields are the keys of a part of a configuration, with their values.
func fields(part any) map[string]any {
	var m map[string]any
	if data, err := json.Marshal(part); err == nil { // a configuration without params always can be written
		_ = json.Unmarshal(data, &m)
	}
	return m
}
