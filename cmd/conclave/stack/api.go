package stack

import (
	"context"
	"maps"
	"slices"

	"conclave/activities"
	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/serve"
	"conclave/engine/config"
)

// serveTeams serves the teams of dev's worker to programs and the pages of all sessions.
func serveTeams(ctx context.Context, conn *hall.Connection, kinds []*runs.Kind, p preparedDev) (*serve.Server, error) {
	o := serve.Options{Listen: serve.DefaultListen, AnyPort: true, AnyUser: conn.Stack.OtherUsers, Version: conn.Version, Kinds: kinds}
	add := func(name string, of config.Team) error {
		t, err := desk.NewTeam(conn, name, of)
		o.Teams = append(o.Teams, t)
		return err
	}
	if err := add(activities.DefaultTeam, p.standard); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.settings.Teams)) {
		if name == activities.DefaultTeam {
			continue
		}
		if err := add(name, p.settings.Teams[name]); err != nil {
			return nil, err
		}
	}
	return serve.Start(ctx, conn, o)
}
