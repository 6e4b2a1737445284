package serve

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/hall"
)

// madeKey is the JSON output of serve key.
type madeKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Line string `json:"line"` // line for the file of --keys
}

func keyCommand(c *hall.CLI) *cobra.Command {
	var by access.Caller
	cmd := &cobra.Command{
		Use:   "key NAME",
		Short: "Make a key for a caller of serve",
		Long: `Make a key. The line for the file of --keys is printed on stdout; it has only the
hash of the key. The key itself is printed on stderr, once: give it to the caller.
A server that runs reads the file again when it changes: without its line a key is
refused from the next request on.`,
		Example: `  conclave serve key alice >> keys
  conclave serve key ci --teams default,reviewers --requests-per-minute 30 --usd-per-day 5 >> keys
  conclave serve key --json alice | jq -r .key`,
		Args: hall.Arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			by.Name = args[0]
			return makeKey(c, by)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&by.Teams, "teams", nil, "the `TEAMS` that the caller may ask, separated by commas (default all)")
	set.IntVar(&by.PerMinute, "requests-per-minute", 0, "at most `N` requests in a minute (default no limit)")
	set.Float64Var(&by.USDPerDay, "usd-per-day", 0, "at most `N` dollars for the sessions of a day, UTC (default no limit)")
	return cmd
}

func makeKey(c *hall.CLI, by access.Caller) error {
	if err := access.CheckName(by.Name); err != nil {
		return err
	}
	for _, t := range by.Teams {
		if t == "" || strings.ContainsAny(t, ": ,#\n") {
			return fmt.Errorf("the team %q has a character that names of teams cannot have", t)
		}
	}
	if by.PerMinute < 0 || by.USDPerDay < 0 {
		return fmt.Errorf("a limit is below 0; leave it out for none")
	}
	if math.IsNaN(by.USDPerDay) || math.IsInf(by.USDPerDay, 0) {
		return fmt.Errorf("--usd-per-day is %v, not an amount of dollars; leave it out for no limit", by.USDPerDay)
	}
	key, line := access.NewKey(by)
	if c.Scripted() {
		return c.PrintJSON(madeKey{by.Name, key, line})
	}
	c.Infof("the key of %s, shown only now: %s", by.Name, key)
	return c.Print(line + "\n")
}
