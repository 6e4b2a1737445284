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

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/scenario"
)

// defaultTesterID is the ID of an agent whose file does not set one.
const defaultTesterID = "tester"

// loadTester reads the agent of --config, or else of the project, or else of the
// working directory. It refuses an agent that cannot start on this machine.
func loadTester(c *cli.CLI, t cli.Target, w *teams.Worker, offline bool, dir string) (tester config.Team, source string, err error) {
	tester, source, err = readTester(c, t, offline, dir)
	if err != nil || offline || t.Cluster {
		return tester, source, err
	}
	tester, err = w.Prepare(c, tester)
	return tester, source, err
}

// readTester is like loadTester, but does not check whether the agent can start.
func readTester(c *cli.CLI, t cli.Target, offline bool, dir string) (tester config.Team, source string, err error) {
	from := chooseTester(c, dir)
	source = from.File
	if source == "" && offline {
		tester = config.Default()
		tester.Agents = tester.Agents[:1]
		return tester.Offline(), "the built-in agent", nil
	}
	if source == "" {
		return tester, "", fmt.Errorf("scenarios need a configuration with exactly one agent; name its file with --config FILE, or put it into %s", filepath.Join(dir, teams.ProjectFile))
	}
	if t.Cluster {
		tester, err = teams.Read(source, config.Cluster)
	} else {
		tester, err = teams.ReadSingle(c, from, offline)
	}
	if _, invalid := errors.AsType[config.Problems](err); invalid && !from.Named {
		err = fmt.Errorf("%w\n%s was found, not named; name the file of the one agent with --config FILE, or put it into %s", err, source, filepath.Join(dir, teams.ProjectFile))
	}
	if err != nil {
		return tester, source, err
	}
	if err := acts.CheckTester(tester); err != nil {
		return tester, source, fmt.Errorf("%s: %w", source, err)
	}
	if tester.Agents[0].ID == "" {
		tester.Agents[0].ID = defaultTesterID
	}
	if offline {
		return tester.Offline(), source, nil
	}
	return tester, source, nil
}

// chooseTester returns the file of --config, or else of the project, or else of the working
// directory. Only a file named with --config counts as named by the user.
func chooseTester(c *cli.CLI, dir string) teams.Source {
	of := filepath.Join(dir, teams.ProjectFile)
	if _, err := os.Lstat(of); c.Config != "" || errors.Is(err, fs.ErrNotExist) {
		return teams.Choose(c)
	}
	return teams.Source{File: of}
}

// warnIgnored warns of settings that scenarios ignore, those for decisions and session time.
func warnIgnored(c *cli.CLI, o *order) {
	set := append(changedKeys("orchestrator", o.tester.Orchestrator), changedKeys("timeout_settings", o.tester.Timeouts)...)
	if o.tester.Agents[0].Subtask != "" {
		set = append(set, "agents[0].subtask")
	}
	for _, key := range set {
		if key == "orchestrator.max_model_calls_per_step" || key == "timeout_settings.outage_seconds" {
			continue
		}
		instead := ""
		if strings.HasPrefix(key, "timeout_settings.") {
			instead = "; --step-timeout bounds each step"
		}
		c.Warnf("%s: %s has no effect on scenarios%s", o.source, key, instead)
	}
}

func changedKeys[T any](section string, value T) []string {
	return differingKeys(section, fieldValues(value), fieldValues(config.Defaults[T]()))
}

func differingKeys(at string, values, defaults map[string]any) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		inner, nested := values[key].(map[string]any)
		innerDefaults, both := defaults[key].(map[string]any)
		switch {
		case nested && both:
			keys = append(keys, differingKeys(at+"."+key, inner, innerDefaults)...)
		case !reflect.DeepEqual(values[key], defaults[key]):
			keys = append(keys, at+"."+key)
		}
	}
	return keys
}

func fieldValues(section any) map[string]any {
	var m map[string]any
	if data, err := json.Marshal(section); err == nil { // a section without params always encodes
		_ = json.Unmarshal(data, &m)
	}
	return m
}

// warnPRD warns if a new run's prd.md does not describe the application to the agents.
func warnPRD(c *cli.CLI, o *order) {
	input := o.runs[0].input // all runs have the same prd.md
	if input.Resume {
		return
	}
	file := o.project.PRD()
	parsed, _ := scenario.ParseProject(input.PRD) // loading has checked it
	switch {
	case strings.TrimSpace(input.PRD) == "":
		c.Warnf("%s is missing or empty: agents know neither the application nor its address; write its Application Type and Base URL there", file)
	case strings.Contains(input.PRD, Unfilled):
		c.Warnf("%s still has the address %s of the template: agents do not know where the application is; write its Base URL there", file, Unfilled)
	case parsed.Summary(true) == "":
		c.Warnf("agents get nothing from %s: it has none of the sections Application Type, Base URL, Tech Stack and Credentials", file)
	}
	if parsed.Unread != "" {
		c.Warnf("%s", parsed.Unread)
	}
}

// warnExposed warns if credentials are part of the workflow's input, which happens without a store.
func warnExposed(c *cli.CLI, o *order) {
	if parsed, _ := scenario.ParseProject(o.runs[0].input.PRD); len(parsed.Secrets()) > 0 {
		c.Warnf("without --bucket, %s is in the input of the workflow, with its credentials, readable by everybody with access to the history", o.project.PRD())
	}
}
