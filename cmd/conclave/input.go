package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// sessionFlags are what run and start take beyond the common flags.
type sessionFlags struct {
	team, criteria, id string
	offline            bool
}

func (f *sessionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.team, "team", "", "use the worker's team `NAME` instead of a configuration")
	flags.StringVar(&f.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON)")
	flags.StringVar(&f.id, "session-id", "", "`ID` of the session (default a new one)")
	flags.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}

// session is a checked wish to start one.
type session struct {
	id      string
	input   sessionflow.Input
	team    config.Team // of the session; on a cluster's own team the zero value
	source  string      // where the team is from
	offline bool
}

// session checks everything that can be wrong with the input.
func (c *cli) session(t target, f sessionFlags, query string) (session, error) {
	s := session{offline: f.offline, input: sessionflow.Input{Query: query}}
	var err error
	if len(query) > drive.MaxQuery {
		return s, fmt.Errorf("the QUERY has %d bytes, at most %d are accepted; put large material where the agents can read it", len(query), drive.MaxQuery)
	}
	if !utf8.ValidString(query) {
		return s, errors.New("the QUERY is not UTF-8 text; convert it, for instance with iconv")
	}
	if s.id, err = sessionID(f.id); err != nil {
		return s, err
	}
	if s.input.EvalCriteria, err = readCriteria(f.criteria); err != nil {
		return s, err
	}
	if f.team != "" && c.config != "" {
		return s, errors.New("--team and --config exclude each other: a team is named or brought along; leave one out")
	}
	if f.team != "" && f.offline {
		return s, errors.New("--offline replaces the models of a team that is brought along, not of one that the worker names; leave out --team")
	}
	if t.cluster {
		return s, c.clusterTeam(&s, f.team)
	}
	if f.team != "" && f.team != activities.DefaultTeam {
		return s, fmt.Errorf("the local stack has no team %q, only %q, which is that of dev or worker, else ./%s or the built-in team; give your own with --config FILE", f.team, activities.DefaultTeam, projectFile)
	}
	if f.team == activities.DefaultTeam {
		team, found, err := t.defaultTeam()
		if err != nil {
			return s, err
		}
		if found {
			s.team, s.source = team, "the default of "+t.dataDir
			return s, startable(team)
		}
	}
	s.team, s.source, err = c.localTeam(f.offline)
	return s, err
}

// clusterTeam names a team of the cluster's workers, or brings one inline,
// which can only name what the workers have.
func (c *cli) clusterTeam(s *session, name string) error {
	if name != "" {
		s.input.Team, s.source = name, "the cluster's team "+name
		return nil
	}
	team, source, err := c.loadTeam(config.Cluster)
	if err != nil {
		return err
	}
	if s.offline {
		team = team.Offline()
	}
	s.team, s.source = team, source
	if s.input.Config, err = team.Canonical(); err != nil {
		return fmt.Errorf("encode the team of %s: %w", source, err)
	}
	return nil
}

// readCriteria reads and checks a criteria file, which travels as it is.
func readCriteria(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	data, err := readInput(file)
	if err != nil {
		return nil, fmt.Errorf("read the evaluation criteria: %w", err)
	}
	if _, err := config.ParseCriteria(file, data); err != nil {
		return nil, err
	}
	if len(data) > drive.MaxConfig {
		return nil, fmt.Errorf("the evaluation criteria in %s have %d bytes, at most %d are accepted", file, len(data), drive.MaxConfig)
	}
	return data, nil
}
