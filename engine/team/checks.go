package team

import (
	"context"
	"fmt"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/text"
)

// checks are the verdicts of checks on the answers shown. The descriptions were written by
// agents or by the user.
type checks struct {
	Descriptions []string
	Rows         []checkRow
}

// checkRow has the verdicts of all checks on one answer.
type checkRow struct {
	Label    string
	Outcomes []string
}

// maxDescription bounds the description of a check, in bytes.
const maxDescription = 400

// loadChecks reads the definitions of the checks that the launch shows.
func (o *opening) loadChecks(ctx context.Context) (*checks, error) {
	table := o.Launch.Checks
	if table == nil {
		return nil, nil
	}
	c := &checks{}
	for _, id := range table.Checks {
		d, err := artifact.ReadJSON[check.Definition](ctx, o.store, check.Key(o.Layout, id))
		if err != nil {
			return nil, fmt.Errorf("reading the check %s: %w", id, err)
		}
		description := d.Name + ": " + d.Command
		c.Descriptions = append(c.Descriptions, text.Truncate(strings.Join(strings.Fields(description), " "), maxDescription))
	}
	for _, row := range table.Rows {
		r := checkRow{Label: row.Label}
		for _, verdict := range row.Verdicts {
			r.Outcomes = append(r.Outcomes, verdictWords[verdict])
		}
		c.Rows = append(c.Rows, r)
	}
	return c, nil
}

// verdictWords are the words for the verdicts of coordination.CheckRow.
var verdictWords = map[rune]string{'1': "passed", '0': "failed", '?': "not run", '.': "not run"}

// within returns the checks with the step's marks removed from their descriptions.
func (c *checks) within(marks ...string) *checks {
	if c == nil {
		return nil
	}
	shown := &checks{Rows: c.Rows}
	for _, description := range c.Descriptions {
		shown.Descriptions = append(shown.Descriptions, text.Within(description, marks...))
	}
	return shown
}
