package serve

import (
	"cmp"
	"slices"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/hall"
)

// loadKeys reads the file of --keys; nil without one. It warns of faults that the file gets
// while the server runs.
func loadKeys(c *hall.CLI, file string) (*access.Keys, error) {
	if file == "" {
		return nil, nil
	}
	keys, err := access.LoadKeys(file)
	if err != nil {
		return nil, err
	}
	keys.Faulty = func(err error) {
		c.Warnf("the keys have changed: %v; admitted now: %s", err, cmp.Or(list(names(keys)), "nobody"))
	}
	return keys, nil
}

// names returns the names of the callers.
func names(keys *access.Keys) (names []string) {
	for _, c := range keys.Callers() {
		names = append(names, c.Name)
	}
	return names
}

// warnOfTeams warns of keys for teams that the server does not offer.
func warnOfTeams(c *hall.CLI, keys *access.Keys, offered []desk.Team) {
	var known []string
	for _, t := range offered {
		known = append(known, t.Name)
	}
	for _, by := range keys.Callers() {
		for _, t := range by.Teams {
			if !slices.Contains(known, t) {
				c.Warnf("the key of %s is for the team %q, which this server does not offer; its teams are %s", by.Name, t, list(known))
			}
		}
	}
}
