package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker/settings"
)

// Configure applies the operator's settings. It does not overwrite fields that are set.
func (c *Config) Configure(s settings.Settings) {
	c.Models.Providers = newProviders(s.Providers)
	if c.Tools == nil {
		c.Tools = NewTools(s)
	}
	if c.MaxConcurrentSteps == 0 {
		c.MaxConcurrentSteps = s.MaxConcurrentSteps
	}
	c.MetricsAddress = s.MetricsAddress
	if s.HeartbeatTimeoutSeconds != nil {
		c.HeartbeatTimeout = time.Duration(*s.HeartbeatTimeoutSeconds) * time.Second
	}
	named := map[string]config.Team{}
	maps.Copy(named, s.Teams)
	if team, ok := c.Teams.Named[activities.DefaultTeam]; ok {
		named[activities.DefaultTeam] = team
	}
	c.Teams.Named = named
}

// CheckPrices returns the first error of Models.CheckPrices for the named teams.
func (c Config) CheckPrices() error {
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		if err := c.Models.CheckPrices(c.Teams.Named[name]); err != nil {
			return fmt.Errorf("use the team %s: %w", name, err)
		}
	}
	return nil
}

// Missing returns a sentence for each unset key variable and for each team that lacks tools.
func (c Config) Missing(ctx context.Context) []string {
	var keys, tools []string
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		team := c.Teams.Named[name]
		needed := c.Models.MissingKeys(team)
		for _, variable := range slices.Sorted(maps.Keys(needed)) {
			keys = append(keys, fmt.Sprintf("the environment variable %s is not set; in sessions of the team %s, %s will wait for a worker that has it",
				variable, name, strings.Join(needed[variable], ", ")))
		}
		if err := c.Tools.Check(ctx, team); err != nil {
			tools = append(tools, fmt.Sprintf("sessions of the team %s cannot work here: %s", name, strings.TrimSuffix(err.Error(), ".")))
		}
	}
	return append(keys, tools...)
}
